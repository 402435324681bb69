"""Programs: the memory accesses of loops that the chapters study, as a plain C compiler would have them make.

A scalar that a loop leaves where it is stays in a register: the textbook product touches C once for each element, after
its innermost loop, and not once for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from accel.cache.nests import BLOCK_ACCESSES, Block, Loop, Reference, Touch, touch
from accel.cache.places import ArrayPlace, place
from accel.cache.streams import Stream, from_nest
from accel.kernels.arguments import positive_integer

__all__ = ["elementwise", "matmul", "random", "sequential", "square_matrices", "strided", "transpose"]

ORDERS = ("ijk", "ikj", "jik", "jki", "kij", "kji")


def square_matrices(n: SupportsIndex, names: str = "ABC", **options: Any) -> tuple[ArrayPlace, ...]:
    """Return places for n x n matrices with names of one letter; `options` are those of `place`.

    >>> from accel.cache import square_matrices
    >>> [matrix.start for matrix in square_matrices(1024, "AB")]
    [0, 4194304]
    """
    size = positive_integer(n, "n")
    return place(dict.fromkeys(names, (size, size)), **options)


def sequential(array: ArrayPlace, *, write: bool = False) -> Stream:
    """Touch every element of an array once, row by row.

    >>> from accel import cache
    >>> cache.sequential(*cache.place({"x": 1000})).count
    1000
    """
    return strided(array, 1, write=write)


def strided(array: ArrayPlace, step: SupportsIndex, *, write: bool = False) -> Stream:
    """Touch every `step`-th element of each row, row by row.

    >>> from accel import cache
    >>> [x] = cache.place({"x": 40})
    >>> next(iter(cache.strided(x, 16))).addresses.tolist()
    [0, 64, 128]
    """
    stride = positive_integer(step, "step")
    rows, columns = array.shape
    one = touch(array, {"i": 1}, {"j": stride}, write=write)
    body = [Loop("i", rows, [Loop("j", -(-columns // stride), [one])])]
    return from_nest(f"{array.name}, every {stride}th element" if stride > 1 else f"{array.name} in order", body, array)


def random(array: ArrayPlace, count: SupportsIndex, *, seed: int = 0, write: bool = False) -> Stream:
    """Touch `count` elements, each drawn at random from all; the same ones each time the stream is gone through.

    >>> from accel import cache
    >>> walk = cache.random(*cache.place({"x": 1 << 20}), count=1000)
    >>> next(iter(walk)) is not next(iter(walk)), walk.count
    (True, 1000)
    """
    length = positive_integer(count, "count")
    rows, columns = array.shape
    evenly_spaced = rows == 1 or array.row_bytes == columns * array.column_bytes

    def blocks() -> Iterator[Block]:
        numbers = np.random.default_rng(seed)
        for first in range(0, length, BLOCK_ACCESSES):
            drawn = numbers.integers(0, rows * columns, min(BLOCK_ACCESSES, length - first))
            if evenly_spaced:  # the division takes as long as all else
                offsets = drawn * array.column_bytes
            else:
                row, column = np.divmod(drawn, columns)
                offsets = row * array.row_bytes + column * array.column_bytes
            yield Block(offsets, np.zeros(drawn.size, np.uint16), np.array([array.start], np.int64))

    reference = Reference(array.name, array.item_bytes, write)
    return Stream(f"{array.name} at random", (reference,), (array,), blocks, length)


def elementwise(inputs: Sequence[ArrayPlace], output: ArrayPlace) -> Stream:
    """Touch one element of each input, then that of the output, which is written, from the first element to the last.

    Raises
    ------
    ValueError
        If the shapes differ.

    >>> from accel import cache
    >>> x, y, z = cache.place({"x": 100, "y": 100, "z": 100})
    >>> cache.elementwise([x, y], z).count
    300
    """
    shapes = [array.shape for array in (*inputs, output)]
    if len(set(shapes)) > 1:
        raise ValueError(f"an elementwise pass goes over arrays of one shape; got {', '.join(map(str, shapes))}.")
    rows, columns = output.shape
    touches = [touch(array, {"i": 1}, {"j": 1}) for array in inputs]
    body = [*touches, touch(output, {"i": 1}, {"j": 1}, write=True)]
    names = ", ".join(array.name for array in inputs)
    return from_nest(
        f"{output.name} from {names or 'nothing'}",
        [Loop("i", rows, [Loop("j", columns, body)])],
        *inputs,
        output,
    )


def transpose(source: ArrayPlace, target: ArrayPlace, *, tile_size: SupportsIndex | None = None) -> Stream:
    """Write ``target[j, i] = source[i, j]``, row by row of `source`, or tile by tile.

    Parameters
    ----------
    tile_size : int, optional
        Rows and columns of a tile. Tiles at the edges are smaller where it does not divide the shape.

    Raises
    ------
    ValueError
        If the shape of `target` is not that of `source` turned around.

    >>> from accel import cache
    >>> cache.transpose(*cache.square_matrices(100, "AB"), tile_size=16).count
    20000
    """
    rows, columns = source.shape
    if target.shape != (columns, rows):
        raise ValueError(
            f"the transpose of {source.shape} has shape {(columns, rows)}; {target.name} has {target.shape}."
        )
    sizes = {"i": rows, "j": columns}

    def body(at: _Tile) -> list[Touch | Loop]:
        read = touch(source, at.index("i"), at.index("j"), first=at.first("i", "j"))
        write = touch(target, at.index("j"), at.index("i"), first=at.first("j", "i"), write=True)
        return [at.loop("i", [at.loop("j", [read, write])])]

    name = f"transpose of {source.name}"
    if tile_size is None:
        return from_nest(f"{name}, row by row", body(_Tile.whole(sizes)), source, target)
    tile = positive_integer(tile_size, "tile_size")
    return from_nest(f"{name}, tiles of {tile}", _tiled(sizes, tile, body), source, target)


def matmul(
    a: ArrayPlace,
    b: ArrayPlace,
    c: ArrayPlace,
    *,
    order: str = "ijk",
    tile_size: SupportsIndex | None = None,
) -> Stream:
    """Make the accesses of ``C = A @ B`` in three nested loops, or of the same loops over tiles.

    Each element of the array that the innermost loop leaves where it is stays in a register while that loop runs:

    - innermost k: reads of A[i, k] and B[k, j], then one write of C[i, j], which is read before where it holds the sum
      over earlier tiles;
    - innermost j: a read of A[i, k], then for each j a read of B[k, j], a read and a write of C[i, j];
    - innermost i: likewise with A and B exchanged.

    Parameters
    ----------
    a, b, c : ArrayPlace
        Of shapes (m, k), (k, n) and (m, n).
    order : str
        The loops from the outermost to the innermost: a permutation of "ijk".
    tile_size : int, optional
        Side of the tiles that three outer loops, in the same order, go over. Tiles at the edges are smaller where it
        does not divide the shape. C then holds partial sums, which are read before they are added to.

    Raises
    ------
    ValueError
        Shapes that do not match; another order; a tile size below 1.

    Examples
    --------
    >>> from accel import cache
    >>> a, b, c = cache.square_matrices(64)
    >>> cache.matmul(a, b, c).count == 64 * 64 * (2 * 64 + 1)
    True
    >>> cache.matmul(a, b, c, tile_size=16).count == 4**3 * 16 * 16 * (2 * 16 + 2)
    True
    """
    (m, depth), (depth_too, n) = a.shape, b.shape
    if depth != depth_too or c.shape != (m, n):
        raise ValueError(f"C = A @ B takes shapes (m, k), (k, n) and (m, n); got {a.shape}, {b.shape} and {c.shape}.")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r}.")
    sizes = {variable: {"i": m, "j": n, "k": depth}[variable] for variable in order}
    tile = None if tile_size is None else positive_integer(tile_size, "tile_size")

    def body(at: _Tile) -> list[Touch | Loop]:
        read_a = touch(a, at.index("i"), at.index("k"), first=at.first("i", "k"))
        read_b = touch(b, at.index("k"), at.index("j"), first=at.first("k", "j"))
        place_c: dict[str, Any] = {"rows": at.index("i"), "columns": at.index("j"), "first": at.first("i", "j")}
        read_c, write_c = touch(c, **place_c), touch(c, **place_c, write=True)
        outer, middle, inner = tuple(order)
        if inner == "k":
            before = [] if tile is None else [read_c]
            within: list[Touch | Loop] = [*before, at.loop("k", [read_a, read_b]), write_c]
        elif inner == "j":
            within = [read_a, at.loop("j", [read_b, read_c, write_c])]
        else:
            within = [read_b, at.loop("i", [read_a, read_c, write_c])]
        return [at.loop(outer, [at.loop(middle, within)])]

    if tile is None:
        return from_nest(f"matmul {order}", body(_Tile.whole(sizes)), a, b, c)
    return from_nest(f"matmul {order}, tiles of {tile}", _tiled(sizes, tile, body), a, b, c)


class _Tile:
    """The loops within a tile, and how they and those over the tiles add up to an index."""

    def __init__(self, counts: dict[str, int], steps: dict[str, int], firsts: dict[str, int]) -> None:
        self._counts, self._steps, self._firsts = counts, steps, firsts

    @classmethod
    def whole(cls, sizes: dict[str, int]) -> _Tile:
        """Return the one tile that is everything."""
        return cls(sizes, dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0))

    def index(self, variable: str) -> dict[str, int]:
        """Return an index as whole numbers times loop variables: the place in the tile, and the tile's."""
        return {variable: 1, f"{variable} tile": self._steps[variable]}

    def first(self, *variables: str) -> tuple[int, int]:
        """Return the row and column of the first element."""
        row, column = variables
        return self._firsts[row], self._firsts[column]

    def loop(self, variable: str, body: Sequence[Touch | Loop]) -> Loop:
        """Return the loop over one side of the tile."""
        return Loop(variable, self._counts[variable], body)


def _tiled(sizes: dict[str, int], tile: int, body: Any) -> list[Touch | Loop]:
    """Return loops over tiles, in the order of `sizes`: along each side the whole tiles, then what is left."""

    def along(variables: list[str], counts: dict[str, int], firsts: dict[str, int]) -> list[Touch | Loop]:
        if not variables:
            return body(_Tile(counts, dict.fromkeys(sizes, tile), firsts))
        variable, *inner = variables
        whole, rest = divmod(sizes[variable], tile)
        pieces = [(whole, tile, 0), (1 if rest else 0, rest, whole * tile)]
        return [
            Loop(f"{variable} tile", count, along(inner, counts | {variable: side}, firsts | {variable: first}))
            for count, side, first in pieces
            if count
        ]

    return along(list(sizes), {}, {})
