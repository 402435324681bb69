"""Figure: the look that every chart shares, and the form in which a chart enters a page."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.svg import FONT_SIZE, inline, writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from accel.numbers import Numbers

__all__ = [
    "BASELINE",
    "INK",
    "MEASURED",
    "PREDICTED",
    "Chart",
    "binary_ticks",
    "blank",
    "level_colors",
    "log_axis",
    "log_ticks",
    "settle",
    "style",
]

MEASURED = "#D55E00"
"""Vermillion of the Okabe-Ito palette."""
PREDICTED = "#0072B2"
"""Blue of the same palette."""
BASELINE = "#808080"
INK = "#000000"
"""Becomes the color of the page's text."""
LEVELS = ("#729B2B", "#3B8F5C", "#2B7F86", "#5A66A0")
"""Memory levels from L1 to DRAM; every color here stands out from white and from #121212 by 3:1 or more."""

WIDTH = 374.0
"""Points. At this width text of 10 points is legible on a phone and not outsized on a desktop."""
BODY_HEIGHT = 232.0
SMALL = 9.0
TITLE = 11.5

_STYLE: dict[str, Any] = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelpad": 3.0,
    "axes.labelsize": FONT_SIZE,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": FONT_SIZE,
    "grid.alpha": 0.14,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 6.0,
    "path.simplify": False,
    "pdf.fonttype": 42,
    "text.hinting": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "accel",
    "svg.id": None,
    "text.parse_math": False,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 3.0,
    "xtick.major.width": 0.7,
    "ytick.labelsize": SMALL,
    "ytick.major.size": 3.0,
    "ytick.major.width": 0.7,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw the body in the book's style; whatever the caller has set in Matplotlib neither shows nor changes."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


@dataclass(frozen=True)
class Chart:
    """A drawn chart. In a notebook it shows itself as inline SVG that follows the page's colors.

    >>> from accel.figure import Chart, blank, style
    >>> with style():
    ...     figure, axes = blank()
    ...     chart = Chart.from_figure(figure, title="Nothing yet", alt="An empty chart.")
    >>> chart
    Chart(alt='An empty chart.')
    """

    svg: str = field(repr=False)
    alt: str
    figure: Figure = field(repr=False, compare=False)
    """The Matplotlib figure, for other formats and for changes of your own."""
    numbers: Numbers | None = field(default=None, repr=False, compare=False)
    """What it was drawn from."""

    @classmethod
    def from_figure(cls, figure: Figure, *, title: str, alt: str, numbers: Numbers | None = None) -> Chart:
        """Draw `figure`; call inside `style()`. `alt` tells in words what there is to see."""
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        return cls(inline(text.getvalue(), title=title, alt=alt), writable(alt), figure, numbers)

    def _repr_html_(self) -> str:
        links = self.numbers.links_html() if self.numbers else ""
        return f'<div class="accel-chart" style="overflow-x:auto">{self.svg}</div>{links}'

    def save(self, path: str | Path) -> Path:
        """Write the chart as ``.svg`` (as shown in pages), ``.png`` or ``.pdf`` (on white); return the path.

        Raises
        ------
        ValueError
            If the name ends in something else.
        """
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        elif path.suffix in (".png", ".pdf"):
            metadata = {"Software": None} if path.suffix == ".png" else {"CreationDate": None}
            with style():
                self.figure.savefig(path, facecolor="white", dpi=200, metadata=metadata)
        else:
            raise ValueError(f"a chart is saved as .svg, .png or .pdf; got {path.name!r}.")
        return path


def blank(height: float = BODY_HEIGHT) -> tuple[Figure, Axes]:
    """Return an empty figure whose axes, with their labels, will be `height` points high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    return figure, figure.add_subplot()


def settle(figure: Figure, *, title: str, note: str, key: Sequence[tuple[Any, str]] = ()) -> None:
    """Put title and key above the axes and the note below, and fix the layout, so that labels can be placed.

    `key` holds (artist, text): what each kind of mark stands for.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(writable(text.get_text()))
    key = [(artist, writable(name)) for artist, name in key]
    body = figure.get_figheight() * 72
    title_text, note_text = wrap(title, TITLE, bold=True), wrap(note, SMALL)
    above = (title_text.count("\n") + 1) * TITLE * 1.25 + 3
    below = (note_text.count("\n") + 1) * SMALL * 1.25 + 3
    legend = _key(figure, key)
    key_height = legend.get_window_extent().height + 4 if legend else 0.0
    height = above + key_height + body + below
    figure.set_size_inches(WIDTH / 72, height / 72)
    figure.text(0, 1, title_text, fontsize=TITLE, fontweight="bold", va="top", linespacing=1.25)
    figure.text(0, 2 / height, note_text, fontsize=SMALL, va="bottom", alpha=0.75, linespacing=1.25)
    if legend:
        legend.set_bbox_to_anchor((0, 1 - (above + 1) / height), transform=figure.transFigure)
    figure.set_layout_engine("constrained", rect=(0, below / height, 1, body / height), w_pad=1 / 72, h_pad=1 / 72)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _key(figure: Figure, key: Sequence[tuple[Any, str]]) -> Any:
    """Add the key, in as few rows as fit, and return it; None where there is nothing to explain."""
    if not key:
        return None
    handles, texts = zip(*key, strict=True)
    for columns in range(len(key), 0, -1):
        legend = figure.legend(
            handles,
            texts,
            loc="upper left",
            ncols=columns,
            fontsize=SMALL,
            borderpad=0,
            borderaxespad=0,
            handletextpad=0.5,
            columnspacing=1.4,
            handlelength=1.8,
        )
        if columns == 1 or legend.get_window_extent().width <= WIDTH:
            return legend
        legend.remove()
    return None


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line of text, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=["DejaVu Sans"], size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(writable(text), font, ismath=False)[0]


def wrap(text: str, size: float, *, bold: bool = False, width: float = WIDTH) -> str:
    """Break text into lines no wider than `width` points, at spaces."""
    lines: list[str] = []
    for word in writable(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def level_colors(count: int) -> list[str]:
    """Return `count` colors for memory levels, from the fastest (light) to the slowest (dark).

    >>> from accel.figure import level_colors
    >>> level_colors(4)[0], len(level_colors(2))
    ('#729B2B', 2)
    """
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if count == len(LEVELS):
        return list(LEVELS)
    ramp = LinearSegmentedColormap.from_list("levels", LEVELS)
    return [to_hex(ramp(i / max(1, count - 1))).upper() for i in range(count)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between `low` and `high` for a logarithmic axis, as many as `most` allows.

    >>> from accel.figure import log_ticks
    >>> log_ticks(0.8, 12), log_ticks(1e-6, 1)
    ([1.0, 2.0, 3.0, 5.0, 10.0], [1e-06, 0.0001, 0.01, 1.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def within(steps: Sequence[float], stride: int) -> list[float]:
        exponents = (e for e in range(first, last + 1) if e % stride == 0)
        ticks = (float(f"{step:g}e{exponent}") for exponent in exponents for step in steps)
        return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]

    dense: list[Sequence[float]] = [(1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)]
    for ticks in (within(steps, 1) for steps in dense):
        if len(ticks) <= most:
            return ticks
    return next(ticks for stride in range(2, 400) if len(ticks := within((1,), stride)) <= most)


def binary_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Return powers of two between `low` and `high`, evenly apart.

    >>> from accel.figure import binary_ticks
    >>> binary_ticks(0.2, 20)
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    """
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    return [2.0**exponent for exponent in range(first, last + 1) if (exponent - first) % stride == 0]


def log_axis(axis: Any, limits: tuple[float, float], ticks: Sequence[float], label: Callable[[float], str]) -> None:
    """Make an axis logarithmic between `limits`, with labels at `ticks` only."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter([label(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())
