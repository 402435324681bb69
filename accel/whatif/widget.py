"""Widget: the explorer as it stands in a page, with all that its JavaScript needs."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from accel.machine import SCHEMA, Machine
from accel.whatif.kernels import DTYPES, EXPONENTS, OFFERED, descriptions
from accel.whatif.machines import compact, layout, tables
from accel.whatif.packing import pack
from accel.whatif.sheets import sheets

if TYPE_CHECKING:
    from anywidget import AnyWidget

__all__ = ["explorer", "page_data", "script"]

_PARTS = (
    "packing",
    "products",
    "pricing",
    "scaling",
    "sheets",
    "answers",
    "machine_file",
    "state",
    "words",
    "chart",
    "widget",
)
"""The modules of `page/`, each after those that it imports."""
_IMPORT = re.compile(r'^import .* from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const)", re.MULTILINE)


@functools.cache
def script() -> str:
    """Return the modules of `page/` as one, which is how a widget carries its script."""
    folder = resources.files("accel.whatif").joinpath("page")
    texts = [folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in _PARTS]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


@functools.cache
def _widget_class() -> type[AnyWidget]:
    """Make the class when the first explorer is shown: importing widgets takes longer than all of accel."""
    import anywidget
    import traitlets

    class WhatIf(anywidget.AnyWidget):
        """The explorer. Everything happens in the browser."""

        _esm = script()
        _css = resources.files("accel.whatif").joinpath("page", "widget.css").read_text(encoding="utf-8")
        data = traitlets.Dict().tag(sync=True)

    return WhatIf


def explorer(
    machine: Machine | None = None,
    *,
    kernel: str = "gelu-unfused",
    dtype: str = "float32",
    size: int = 22,
    **factors: float,
) -> AnyWidget:
    """Return the what-if explorer: a kernel on a machine whose arithmetic and memory the reader makes faster or slower.

    It works in a page without a kernel, in JupyterLab and in Colab.

    Parameters
    ----------
    machine : Machine
        The machine of the page; this machine if not given.
    kernel : str
        The kernel it begins with, by its name in `accel.whatif.kernels.OFFERED`.
    dtype : str
        ``"float32"`` or ``"float64"``.
    size : int
        The power of two that is its number of elements, 10 to 24.
    **factors : float
        What it begins with: ``peak=2.0``, ``DRAM=4.0``…, from 1/4 to 16.

    Raises
    ------
    ValueError
        If there is no such kernel or dtype, or a factor is for nothing or out of range.

    Examples
    --------
    >>> from accel import whatif
    >>> whatif.explorer(kernel="fft")
    Traceback (most recent call last):
        ...
    ValueError: the explorer has the kernels add, add-into, sum, copy, transpose, gelu-unfused, gelu-in-place, \
gelu-fused, softmax, softmax-in-place, layer-norm, layer-norm-two-pass, matmul; got 'fft'.
    """
    if kernel not in OFFERED:
        raise ValueError(f"the explorer has the kernels {', '.join(OFFERED)}; got {kernel!r}.")
    if dtype not in DTYPES:
        raise ValueError(f"the explorer has the dtypes {', '.join(DTYPES)}; got {dtype!r}.")
    if size not in EXPONENTS:
        raise ValueError(
            f"the explorer has sizes of 2**{EXPONENTS[0]} to 2**{EXPONENTS[-1]} elements; got size={size!r}."
        )
    wrong = {name: value for name, value in factors.items() if name not in FACTORS or not 1 / 4 <= value <= 16}
    if wrong:
        raise ValueError(f"the explorer has the factors {', '.join(FACTORS)}, from 1/4 to 16; got {wrong}.")
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    return _widget_class()(
        data=page_data(machine) | {"start": {"kernel": kernel, "dtype": dtype, "size": size, **factors}}
    )


FACTORS = ("peak", "L1", "L2", "L3", "DRAM")


def page_data(machine: Machine) -> dict[str, Any]:
    """Return what a page needs for every position of the controls."""
    from accel import storage

    found = descriptions()
    every = [each for by_dtype in found.values() for listed in by_dtype.values() for each in listed]
    machines = {"page": machine, **storage.references()}
    return {
        "kernels": {
            name: {
                "label": offer.label,
                "shapes": [offer.shape(2**exponent) for exponent in EXPONENTS],
                **{dtype: pack(found[name][dtype]) for dtype in DTYPES},
            }
            for name, offer in OFFERED.items()
        },
        "exponents": list(EXPONENTS),
        "machines": {name: compact(each, every) for name, each in machines.items()},
        "sheets": [sheet.to_dict() for sheet in sheets()],
        "tables": tables(),
        "schema": SCHEMA,
        "layout": layout(),
    }
