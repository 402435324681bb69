"""Convolution in two dimensions, as deep learning means it: a weighted sum over a window that slides over an image.

    y[b, o, i, j] = Σ x[b, c, i·s + p - m, j·s + q - m] · w[o, c, p, q]    over c, p and q

with stride s and m rows and columns of zeros around the image (the padding). The window is not mirrored, which
mathematics calls a cross-correlation. It is a matrix product with a right operand, of c·k·k rows and a column for each
place of the window, that repeats each pixel up to k·k times. The forms differ in how much of that operand they make.

Sources: Chellapilla, Puri and Simard 2006 (im2col); Dukhan, arXiv 1907.02129 (the operand never made).

All forms take float32 or float64 arrays of one dtype, of any strides and byte order: images ``(batch, c_in, h, w)`` and
weights ``(c_out, c_in, k, k)``, not necessarily square. They return ``(batch, c_out, (h + 2m - k) // s + 1, …)`` and
never warn; NaN and infinities spread as the formula has it.
"""

from __future__ import annotations

from accel.kernels.convolution.bands import tiled
from accel.kernels.convolution.fusion import fused
from accel.kernels.convolution.planes import shifted
from accel.kernels.convolution.textbook import direct_loops, im2col, reference, window_view

__all__ = ["direct_loops", "fused", "im2col", "reference", "shifted", "tiled", "window_view"]
