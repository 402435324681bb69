"""Counting: FLOPs and special-function calls of each NumPy operation, from shapes and dtypes alone.

The rules, where n is the number of input elements and m that of result elements:

- an elementwise operation that hardware has an instruction for (add, multiply, divide, sqrt, maximum, comparison,
  bitwise…) is 1 FLOP an element, for integers as for floats; clip is 2; a product that `fma` could fuse is 2;
- an elementary function (exp, tanh, power…), and any ufunc this module does not know, is 1 special an element, 0 FLOPs;
- a reduction is n - m, `mean` n, `var` 4n (mean, subtract, square, mean), `std` 4n + m;
- complex arithmetic counts its real operations: add 2, multiply and square 6, divide 10 (Smith's algorithm), absolute
  1 special; other operations twice the real count;
- a matrix product is 2mnk (complex 8mnk), whatever the algorithm;
- copies, casts, selection, sorting of axes and `where` are 0;
- sort, FFT and linear algebra are the usual leading-order formulas, marked `approximate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Work", "count", "elementwise_flops", "is_special"]


@dataclass(frozen=True)
class Work:
    """Arithmetic of one call."""

    flops: int = 0
    special: int = 0
    approximate: bool = False
    scratch_bytes: int = 0


@dataclass(frozen=True)
class Call:
    """What the rules look at: a call's name, and the shapes of its arrays."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    """Of the input arrays, in order."""
    result_sizes: tuple[int, ...]
    dtype: str
    """One-letter kind of the loop's dtype and its size, as in ``"f4"`` or ``"c16"``."""
    arguments: Mapping[str, Any]
    """Other arguments by name: axis, ord, subscripts…"""
    axis: tuple[int, ...] | None = None
    ufunc: bool = False

    @property
    def size(self) -> int:
        """Elements of the first input array."""
        return math.prod(self.shapes[0]) if self.shapes else 0

    @property
    def result_size(self) -> int:
        """Elements of the first result."""
        return self.result_sizes[0] if self.result_sizes else 0

    @property
    def is_complex(self) -> bool:
        """Whether the arithmetic is complex."""
        return self.dtype[:1] == "c"

    @property
    def axis_length(self) -> int:
        """Elements along the axes worked on; of the whole array where no axis is named."""
        if self.axis is None or not self.shapes:
            return self.size
        return math.prod(self.shapes[0][a] for a in self.axis)


_FREE = frozenset({"positive", "isnat", "_arg"})

_ARITHMETIC = frozenset(
    """add subtract multiply divide true_divide floor_divide remainder fmod negative absolute fabs sqrt square
    reciprocal sign signbit copysign rint floor ceil trunc maximum minimum fmax fmin greater greater_equal less
    less_equal equal not_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
    bitwise_count invert left_shift right_shift isnan isinf isfinite conjugate heaviside deg2rad rad2deg degrees
    radians nextafter spacing""".split()  # noqa: SIM905
)
_TWO = frozenset({"clip", "divmod", "modf", "frexp", "ldexp"})
_COMPLEX = {"multiply": 6, "square": 6, "divide": 10, "true_divide": 10, "reciprocal": 6, "conjugate": 1, "sqrt": 0}
_PRODUCTS = frozenset({"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot", "convolve"})


def elementwise_flops(name: str, dtype: str = "f8") -> int:
    """Return the FLOPs that the ufunc `name` spends on one element; 0 where it is special, or moves data only.

    >>> elementwise_flops("add"), elementwise_flops("add", "c16"), elementwise_flops("tanh")
    (1, 2, 0)
    """
    if is_special(name, dtype) or name in _FREE:
        return 0
    real = 2 if name in _TWO else 1
    if dtype[:1] == "c":
        return _COMPLEX.get(name, 2 * real)
    return 0 if name == "conjugate" else real


def is_special(name: str, dtype: str = "f8") -> bool:
    """Tell whether the ufunc `name` is an elementary function (or unknown), counted as `special` and not in FLOPs."""
    if dtype[:1] == "c" and name in {"absolute", "sqrt"}:
        return True
    return name not in _ARITHMETIC and name not in _TWO and name not in _FREE


def count(call: Call) -> Work | None:
    """Return the arithmetic of a call, or None where no rule is known.

    >>> count(Call("add.reduce", ((10, 4),), (10,), "f4", {}, axis=(1,), ufunc=True))
    Work(flops=30, special=0, approximate=False, scratch_bytes=0)
    """
    if call.name in _RULES:
        return _RULES[call.name](call)
    if call.name in _PRODUCTS:
        return _product(call)
    if call.name in _MOVES:
        return Work()
    if not call.ufunc or call.dtype[:1] == "O":
        return None
    name, _, method = call.name.partition(".")
    return _METHODS[method](call, name)


def _evaluations(name: str, dtype: str, times: int) -> Work:
    if is_special(name, dtype):
        return Work(special=times)
    return Work(flops=elementwise_flops(name, dtype) * times)


def _reduced(call: Call, name: str) -> Work:
    starts = 0 if call.arguments.get("initial") is not None else call.result_size
    return _evaluations(name, call.dtype, max(call.size - starts, 0))


def _accumulated(call: Call, name: str) -> Work:
    length = call.axis_length
    return _evaluations(name, call.dtype, call.size - call.size // length if length else 0)


def _reduced_at(call: Call, name: str) -> Work:
    """Exact where the indices start at 0 and increase: each result element starts from one input element."""
    return _evaluations(name, call.dtype, max(call.size - call.result_size, 0))


def _updated_at(call: Call, name: str) -> Work:
    index = math.prod(call.shapes[1]) if len(call.shapes) > 1 else 1
    return _evaluations(name, call.dtype, int(call.arguments.get("updates", index)))


_METHODS: dict[str, Callable[[Call, str], Work]] = {
    "": lambda call, name: _evaluations(name, call.dtype, call.result_size),
    "outer": lambda call, name: _evaluations(name, call.dtype, call.result_size),
    "reduce": _reduced,
    "accumulate": _accumulated,
    "reduceat": _reduced_at,
    "at": _updated_at,
}


def _product(call: Call) -> Work:
    """2 FLOPs for each multiplication and addition: 2mnk, where k is the length summed over."""
    if len(call.shapes) < 2:
        return Work()
    left, right = (math.prod(shape) for shape in call.shapes[:2])
    if call.name == "convolve":
        return Work(flops=2 * left * right, approximate=True)
    if call.name == "tensordot":
        summed = math.isqrt(left * right // call.result_size) if call.result_size else 0
    elif call.name == "vdot":
        summed = left
    else:
        axis = -2 if call.name == "vecmat" and len(call.shapes[1]) > 1 else -1
        shape = call.shapes[1] if call.name == "vecmat" else call.shapes[0]
        summed = shape[axis] if shape else 1
    if call.name == "dot" and () in call.shapes[:2]:
        return _evaluations("multiply", call.dtype, call.result_size)
    return Work(flops=(8 if call.is_complex else 2) * call.result_size * summed)


def _mean(call: Call) -> Work:
    """(n - m) additions and m divisions."""
    return Work(flops=(2 if call.is_complex else 1) * max(call.size, call.result_size))


def _variance(call: Call) -> Work:
    """Mean, deviations, squares, and the mean of those; the deviations are a temporary array."""
    per_element, itemsize = (8, call.dtype[1:]) if call.is_complex else (4, call.dtype[1:])
    return Work(flops=per_element * call.size, scratch_bytes=call.size * int(itemsize or 8))


def _deviation(call: Call) -> Work:
    work = _variance(call)
    return Work(flops=work.flops + call.result_size, scratch_bytes=work.scratch_bytes)


def _argument_extreme(call: Call) -> Work:
    return Work(flops=max(call.size - call.result_size, 0))


def _sort(call: Call) -> Work:
    length = call.axis_length
    return Work(flops=round(call.size * math.log2(length)) if length > 1 else 0, approximate=True)


def _partition(call: Call) -> Work:
    """Quickselect: about two comparisons an element."""
    return Work(flops=2 * call.size, approximate=True)


def _search(call: Call) -> Work:
    length = call.size
    return Work(flops=call.result_size * math.ceil(math.log2(length + 1)), approximate=True)


def _clip(call: Call) -> Work:
    bounds = sum(call.arguments.get(name) is not None for name in ("a_min", "a_max", "min", "max"))
    return Work(flops=min(bounds, 2) * call.result_size)


def _round(call: Call) -> Work:
    """Rint alone for whole numbers; multiply, rint, divide for decimals."""
    return Work(flops=(3 if call.arguments.get("decimals") else 1) * call.result_size)


def _difference(call: Call) -> Work:
    return _evaluations("subtract", call.dtype, call.result_size * int(call.arguments.get("n") or 1))


def _norm(call: Call) -> Work:
    """Squares, their sum and a square root (for ord=None and 2 on vectors, and Frobenius)."""
    order = call.arguments.get("ord")
    if order in (None, "fro") or (order == 2 and call.axis_length and len(call.axis or call.shapes[0]) == 1):
        return Work(flops=(4 if call.is_complex else 2) * call.size)
    return Work(flops=2 * call.size, approximate=True)


def _einsum(call: Call) -> Work | None:
    """Count, at each point of the indices, a multiplication per further operand, and an addition if there is a sum."""
    subscripts = call.arguments.get("subscripts")
    if not isinstance(subscripts, str) or "." in subscripts:
        return None
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for indices, shape in zip(inputs.split(","), call.shapes, strict=False):
        for index, length in zip(indices, shape, strict=True):
            lengths[index] = max(length, lengths.get(index, 1))
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(index for index in lengths if letters.count(index) == 1))
    points = math.prod(lengths.values())
    products, sums = len(call.shapes) - 1, int(set(lengths) != set(output))
    per_point = 6 * products + 2 * sums if call.is_complex else products + sums
    work = points * per_point
    if not products and sums:
        work = (points - call.result_size) * (2 if call.is_complex else 1)
    return Work(flops=work, approximate=bool(call.arguments.get("optimize")) and products > 1)


def _square_formula(numerator: int, denominator: int) -> Callable[[Call], Work]:
    """(numerator / denominator) n³ for each matrix of a stack."""

    def rule(call: Call) -> Work:
        *stack, rows, columns = call.shapes[0]
        flops = math.prod(stack) * numerator * rows * rows * columns // denominator
        return Work(flops=flops * (4 if call.is_complex else 1), approximate=True)

    return rule


def _solve(call: Call) -> Work:
    """Elimination, 2n³/3, and two triangular solves, 2n² for each right-hand side."""
    *stack, n, _ = call.shapes[0]
    columns = math.prod(call.shapes[1]) // max(math.prod(stack) * n, 1)
    flops = math.prod(stack) * (2 * n**3 // 3 + 2 * n * n * columns)
    return Work(flops=flops * (4 if call.is_complex else 1), approximate=True)


def _transform(call: Call) -> Work:
    """5 N log2 N for each complex transform of length N, half of it for a real one."""
    total, real = max(call.size, call.result_size), "rfft" in call.name or call.name in {"fft.hfft", "fft.ihfft"}
    length = call.axis_length
    if call.axis is None and not call.name.endswith(("fft2", "fftn")):
        length = call.shapes[0][-1] if call.shapes and call.shapes[0] else 1
    flops = round(5 * total * math.log2(length)) if length > 1 else 0
    return Work(flops=flops // 2 if real else flops, approximate=True)


_RULES: dict[str, Callable[[Call], Work | None]] = {
    "mean": _mean,
    "var": _variance,
    "std": _deviation,
    "argmax": _argument_extreme,
    "argmin": _argument_extreme,
    "count_nonzero": lambda call: Work(flops=call.size),
    "nonzero": lambda call: Work(flops=call.size),
    "trace": lambda call: Work(flops=max(min(call.shapes[0][:2]) - 1, 0)) if len(call.shapes[0]) == 2 else None,
    "outer": lambda call: _evaluations("multiply", call.dtype, call.result_size),
    "kron": lambda call: _evaluations("multiply", call.dtype, call.result_size),
    "diff": _difference,
    "clip": _clip,
    "round": _round,
    "sort": _sort,
    "argsort": _sort,
    "unique": _sort,
    "partition": _partition,
    "argpartition": _partition,
    "median": _partition,
    "searchsorted": _search,
    "einsum": _einsum,
    "linalg.norm": _norm,
    "linalg.solve": _solve,
    "linalg.inv": _square_formula(2, 1),
    "linalg.det": _square_formula(2, 3),
    "linalg.slogdet": _square_formula(2, 3),
    "linalg.cholesky": _square_formula(1, 3),
    **{
        f"fft.{name}": _transform
        for name in """fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft""".split()  # noqa: SIM905
    },
}

_MOVES = frozenset(
    """copy astype copyto put take concatenate stack vstack hstack dstack column_stack block pad where select choose
    compress extract repeat tile roll rot90 flip zeros ones full empty eye array arange broadcast_arrays tril triu
    diag diagflat fill_diagonal place putmask put_along_axis take_along_axis delete insert append byteswap resize
    meshgrid fft.fftshift fft.ifftshift fill""".split()  # noqa: SIM905
)
