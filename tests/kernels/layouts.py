"""Hypothesis strategies: one set of values in every layout that NumPy knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

LAYOUTS = ("C", "F", "strided", "reversed", "swapped", "read-only")


def lay_out(values: np.ndarray, layout: str) -> np.ndarray:
    """Return equal values in memory of the given layout."""
    if layout == "strided":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]) if values.ndim else (), values.dtype)
        view = wide[..., ::2] if values.ndim else wide
        view[...] = values
        return view
    if layout == "reversed":
        return np.ascontiguousarray(np.flip(values))[(slice(None, None, -1),) * values.ndim] if values.ndim else values
    if layout == "swapped":
        return values.astype(values.dtype.newbyteorder())
    array = np.array(values, order="F" if layout == "F" else "C")
    array.flags.writeable = layout != "read-only"
    return array


def floats(shape: Any, dtype: str, limit: float) -> st.SearchStrategy[np.ndarray]:
    """Arrays of finite floats of a layout drawn at random."""
    width = 8 * np.dtype(dtype).itemsize
    elements = st.floats(-limit, limit, width=width)
    arrays = hnp.arrays(dtype, shape, elements=elements)
    return st.builds(lay_out, arrays, st.sampled_from(LAYOUTS))
