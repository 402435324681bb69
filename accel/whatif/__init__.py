"""What-if: the model of this book at the turn of a knob, on any machine, in the reader's browser.

`explorer()` shows it. What it computes is `accel.predict` on a machine that `scaled()` makes, and for a machine known
only from its specification `bound_seconds()`.
"""

from __future__ import annotations

from accel.whatif.description import describe
from accel.whatif.scaling import scaled
from accel.whatif.sheets import Sheet, bound_seconds, sheets
from accel.whatif.widget import explorer

__all__ = ["Sheet", "bound_seconds", "describe", "explorer", "scaled", "sheets"]
