"""Convolution as a matrix product whose right operand is never made: its rows are pieces of the image. Needs Numba."""

from __future__ import annotations

from accel.kernels import simd
from accel.kernels.compiled import compiled, inlined
from accel.kernels.compiled.register_tile import ROWS, columns, multiply_rows

__all__ = ["ROWS", "columns", "convolve"]

STEPS = 384
"""Multiply-adds for each number of the result before the next tile: its rows of weights fill 9 KB in float32, so they
and what they are multiplied with stay in the L1 cache while they are used, and all rows of weights in the L2 cache."""


@inlined
def _copy(source, start, target, at, count):  # type: ignore[no-untyped-def]
    """Copy `count` neighbouring elements, the last vector over a part of the one before it where lanes are left."""
    lanes = simd.lane_count(target)
    if count < lanes:
        for j in range(count):
            target[at + j] = source[start + j]
    else:
        for j in range(0, count - lanes, lanes):
            simd.store(target, at + j, simd.load(source, start + j))
        simd.store(target, at + count - lanes, simd.load(source, start + count - lanes))


@inlined
def _fill(image, c_in, h, w, stride, padding, first_row, pixels, channel_size, phases, height, width):  # type: ignore[no-untyped-def]
    """Lay the rows that a band sees out in planes, as `accel.kernels.convolution.planes.Planes` describes."""
    if padding > 0:
        for i in range(pixels.size):
            pixels[i] = 0
    for phase in range(phases * phases):
        p, q = phase // phases, phase % phases
        first = (padding - q + stride - 1) // stride if padding > q else 0
        last = (w + padding - q + stride - 1) // stride
        last = last if last < width else width
        for row in range(c_in * height):
            c, i = row // height, row % height
            y = (first_row + i) * stride + p - padding
            if 0 <= y < h and first < last:
                start = (c * h + y) * w + q - padding + first * stride
                at = c * channel_size + (phase * height + i) * width + first
                if stride == 1:
                    _copy(image, start, pixels, at, last - first)
                else:
                    for j in range(last - first):
                        pixels[at + j] = image[start + j * stride]


@inlined
def _multiply(weights, rest, panels, pixels, starts, sums, places, tile):  # type: ignore[no-untyped-def]
    """Write the sums of a band: panel after panel of ROWS channels, a row of `places` numbers for each."""
    depth = starts.size
    full = weights.size // (ROWS * depth)
    for first in range(0, depth, STEPS):
        steps = STEPS if first + STEPS < depth else depth - first
        rows = starts[first : first + steps]
        for place in range(0, places, tile):
            for panel in range(panels):
                source = weights if panel < full else rest
                row = panel * ROWS * depth if panel < full else 0
                target = panel * ROWS * places + place
                multiply_rows(steps, source, row + first, depth, pixels, place, rows, sums, target, places, first > 0)


@compiled
def convolve(  # type: ignore[no-untyped-def]
    c_in,
    h,
    w,
    c_out,
    k_h,
    k_w,
    stride,
    padding,
    all_rows,
    columns,
    phases,
    rows,
    height,
    width,
    first_row,
    weights,
    rest,
    image,
    pixels,
    starts,
    sums,
    result,
    tile,
):
    """Convolve a band of one image.

    The first two lines of parameters are the fields of `Geometry`, but for the batch, and of `Planes`, and the band's
    first row. All arrays are flat and of one dtype.

    Parameters
    ----------
    weights, rest
        A row of weights for each channel of the result; the last panel's, if it is not full, stand in `rest`.
    image
        The pixels of all channels.
    pixels, sums
        Scratch memory for the planes, and for the sums in whole tiles.
    starts
        Where in `pixels` the row of the operand begins that each weight is multiplied with.
    result
        The whole result for this image.
    tile
        Columns of a tile.
    """
    channel_size = starts[k_h * k_w] if c_in > 1 else 0
    _fill(image, c_in, h, w, stride, padding, first_row, pixels, channel_size, phases, height, width)
    panels = (c_out + ROWS - 1) // ROWS
    places = (rows * width + tile - 1) // tile * tile
    _multiply(weights, rest, panels, pixels, starts, sums, places, tile)
    for o in range(c_out):
        for i in range(rows):
            _copy(sums, o * places + i * width, result, (o * all_rows + first_row + i) * columns, columns)
