"""Places: where arrays lie in memory, which decides the sets that their lines compete for."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from accel.kernels.arguments import positive_integer
from accel.records import Record

__all__ = ["HIGHEST_ADDRESS", "ArrayPlace", "place", "whole_number"]

HIGHEST_ADDRESS = 2**62
"""Addresses lie below this: twice the number of any line is then still an int64."""
PAGE_BYTES = 4096


@dataclass(frozen=True)
class ArrayPlace(Record):
    """Where the elements of a matrix lie: element (i, j) at ``start + i * row_bytes + j * column_bytes``.

    A vector is a matrix of one row.

    Raises
    ------
    TypeError, ValueError
        Numbers that are not whole; a negative start; shape, item or strides below 1; elements that overlap.

    Examples
    --------
    >>> from accel.cache import ArrayPlace
    >>> a = ArrayPlace("A", 0, (4, 8), item_bytes=4, row_bytes=32, column_bytes=4)
    >>> a.address(1, 2), a.stop
    (40, 128)
    """

    name: str
    start: int
    shape: tuple[int, int]
    item_bytes: int
    row_bytes: int
    column_bytes: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"an array needs a name; got {self.name!r}. Pass a str such as 'A'.")
        shape = tuple(positive_integer(length, f"each length of {self.name}'s shape") for length in self.shape)
        if len(shape) != 2:
            raise ValueError(f"{self.name} must have rows and columns; got shape {shape}. A vector is (1, n).")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "start", whole_number(self.start, f"{self.name}'s start"))
        for field in ("item_bytes", "row_bytes", "column_bytes"):
            object.__setattr__(self, field, positive_integer(getattr(self, field), f"{self.name}'s {field}"))
        (short, count), (long, _) = self._axes
        if short < self.item_bytes or (long < short * (count - 1) + self.item_bytes and 1 not in shape):
            raise ValueError(
                f"the elements of {self.name} must not overlap; got shape {shape} of {self.item_bytes} bytes, rows "
                f"{self.row_bytes} and columns {self.column_bytes} bytes apart."
            )
        if self.stop > HIGHEST_ADDRESS:
            raise ValueError(f"{self.name} must end at an address up to 2**62; it would end at {self.stop}.")

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> Self:
        """Return where a NumPy array of one or two dimensions really lies.

        Raises
        ------
        TypeError
            If it is not an array.
        ValueError
            If it has no or more than two dimensions, no elements, or strides that are negative or zero.

        Examples
        --------
        >>> import numpy as np
        >>> from accel.cache import ArrayPlace
        >>> ArrayPlace.of("x", np.zeros((6, 10), np.float32)[:, ::2]).column_bytes
        8
        """
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} must be an array; got {type(array).__name__}.")
        if array.ndim not in (1, 2) or not array.size:
            raise ValueError(f"{name} must have one or two dimensions and elements; got shape {array.shape}.")
        if min(array.strides) < 1:
            raise ValueError(f"{name} must have strides above zero; got {array.strides}. Pass {name}.copy().")
        if array.ndim == 1:
            return cls(name, array.ctypes.data, (1, array.size), array.itemsize, array.nbytes, array.strides[0])
        return cls(name, array.ctypes.data, array.shape, array.itemsize, *array.strides)

    @property
    def _axes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Stride and length of the axis with neighbouring elements, then of the other."""
        rows, columns = (self.row_bytes, self.shape[0]), (self.column_bytes, self.shape[1])
        return (rows, columns) if self.row_bytes < self.column_bytes else (columns, rows)

    @property
    def stop(self) -> int:
        """The address after the last byte."""
        rows, columns = self.shape
        return self.start + (rows - 1) * self.row_bytes + (columns - 1) * self.column_bytes + self.item_bytes

    @property
    def transposed(self) -> Self:
        """The same memory with rows and columns exchanged: going through its rows goes down the columns of this one."""
        rows, columns = self.shape
        return replace(self, shape=(columns, rows), row_bytes=self.column_bytes, column_bytes=self.row_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, without gaps."""
        return self.shape[0] * self.shape[1] * self.item_bytes

    def address(self, row: int, column: int) -> int:
        """Return the address of an element's first byte."""
        return self.start + row * self.row_bytes + column * self.column_bytes

    def elements_at(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and column of the elements at addresses within the array; a gap belongs to what precedes it."""
        (short, count), (long, _) = self._axes
        far, rest = np.divmod(addresses - self.start, long)
        near = np.minimum(rest // short, count - 1)
        return (near, far) if self.row_bytes < self.column_bytes else (far, near)


def whole_number(value: SupportsIndex, name: str, least: int = 0) -> int:
    """Return `value` as an int that is at least `least`."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number; got {value!r}.")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}; got {number}.")
    return number


def place(
    shapes: Mapping[str, int | tuple[int, int]],
    dtype: DTypeLike = np.float32,
    *,
    leading_dimension: int | None = None,
    start: int = 0,
    alignment: int = PAGE_BYTES,
) -> tuple[ArrayPlace, ...]:
    """Return places for row-major arrays, one after the other in memory.

    Parameters
    ----------
    shapes : dict of str to shape
        The length of a vector, or rows and columns of a matrix, by name.
    dtype : dtype
        Of all arrays; only its size matters.
    leading_dimension : int, optional
        Elements from one row of a matrix to the next; its columns unless given.
    start, alignment : int
        Address before which no array begins; every array begins at a multiple of `alignment` bytes. The default is
        that of large arrays, whose pages are their own.

    Raises
    ------
    TypeError, ValueError
        No array; a shape, a leading dimension or an alignment that is not a whole number or too small.

    Examples
    --------
    >>> from accel.cache import place
    >>> a, b = place({"A": (64, 64), "B": (64, 64)}, leading_dimension=65)
    >>> a.row_bytes, b.start
    (260, 20480)
    """
    if not shapes:
        raise ValueError("place() needs at least one array; got none. Pass a dict such as {'A': (64, 64)}.")
    item = np.dtype(dtype).itemsize
    step = positive_integer(alignment, "alignment")
    address = whole_number(start, "start")
    placed = []
    for name, shape in shapes.items():
        rows, columns = (1, shape) if not isinstance(shape, tuple) else shape
        columns = positive_integer(columns, f"the columns of {name}")
        row = columns if leading_dimension is None or not isinstance(shape, tuple) else leading_dimension
        if positive_integer(row, "leading_dimension") < columns:
            raise ValueError(
                f"leading_dimension must be at least the {columns} columns of {name}; got {leading_dimension}."
            )
        address = -(-address // step) * step
        placed.append(ArrayPlace(name, address, (rows, columns), item, row * item, item))
        address = placed[-1].stop
    return tuple(placed)
