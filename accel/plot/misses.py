"""The miss map: an array as it lies in memory, each cell as dark as it missed often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.cache.maps import MissMap
from accel.figure import INK, Chart, blank, settle, style
from accel.plot.marks import sentences
from accel.plot.numbers import gathered, miss_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["miss_map"]

MOST_CELLS = 256
"""On a side: more would be finer than the chart's pixels."""
FEW, MANY = "#E7C6B1", "#8C2D04"
"""From light to dark within the family of the color for measured values; cells without a miss stay empty."""


@style()
def miss_map(misses: MissMap, *, title: str, most: int | None = None, alt: str | None = None) -> Chart:
    """Draw where in an array accesses missed, and how often.

    Arrays of more than 256 cells on a side are drawn in larger cells, of which each shows the sum.

    Parameters
    ----------
    misses : MissMap
        From `accel.cache.miss_map`.
    title : str
        The finding.
    most : int, optional
        Misses that the darkest color stands for, so that several charts compare; the most of any cell unless given.

    Raises
    ------
    ValueError
        If `most` is below 1.
    """
    counts, cell = gathered(np.array(misses.misses, np.int64), misses.cell, MOST_CELLS)
    darkest = int(counts.max()) if most is None else most
    if most is not None and most < 1:
        raise ValueError(f"most must be at least 1; got {most}.")
    figure, axes = blank(260.0)
    image = _draw(axes, counts, max(1, darkest), misses.array.shape)
    axes.set(xlabel=f"column of {misses.array.name}", ylabel=f"row of {misses.array.name}")
    note = f"A cell is {_sides(cell)}. Simulated: {misses.level}."
    settle(figure, title=title, note=note, key=_key(image, counts, max(1, darkest)))
    told = (
        f"{misses.stream}, {misses.level}: {misses.total:,} misses of {misses.array.name}, from {counts.min():,} to "
        f"{counts.max():,} in a cell of {_sides(cell)}; {np.count_nonzero(counts == 0) / counts.size:.0%} of the cells "
        "have none"
    )
    numbers = miss_numbers(title, misses)
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, told), numbers=numbers)


def _draw(axes: Axes, counts: np.ndarray, darkest: int, shape: tuple[int, int]) -> Any:
    """Draw the cells over the array's rows and columns, the first row at the top."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("misses", (FEW, MANY)).with_extremes(bad=(0, 0, 0, 0))
    rows, columns = shape
    image = axes.imshow(
        np.ma.masked_equal(counts, 0),
        cmap=ramp,
        vmin=min(1, darkest - 1),
        vmax=darkest,
        aspect="auto",
        interpolation="none",
        extent=(0, columns, rows, 0),
    )
    axes.grid(visible=False)
    axes.spines[["top", "right"]].set_visible(True)
    return image


def _key(image: Any, counts: np.ndarray, darkest: int) -> list[tuple[Any, str]]:
    """Return what some of the colors stand for."""
    from matplotlib.patches import Patch

    middle = (1 + darkest) // 2
    shown: Sequence[int] = sorted({1, middle, darkest})
    key = [
        (Patch(facecolor=image.cmap(image.norm(count)), edgecolor="none"), f"{count:,} miss{'es' * (count > 1)}")
        for count in shown
    ]
    if (counts == 0).any():
        key.insert(0, (Patch(facecolor="none", edgecolor=INK, linewidth=0.6), "none"))
    return key


def _sides(cell: tuple[int, int]) -> str:
    """Write the elements that a cell stands for."""
    rows, columns = cell
    if rows == columns == 1:
        return "one element"
    return f"{rows} x {columns} elements"
