"""Shape rules: what NumPy's functions return, from the shapes, strides and dtypes of their arguments alone.

A rule takes a function's own arguments, arrays among them as layouts: ndarrays whose shape and strides are right and
whose memory does not exist, so that a rule may look at them and make views of them but never touch an element. It
returns what the function would: a `Made` for an array or scalar that is computed, or a view of an argument.
"""

# ruff: noqa: ARG001, ARG005 -- a rule has the signature of its function, whether or not the shape depends on all of it

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from accel.tracing.description import resolved_dtypes
from accel.tracing.layout import axis_order, packed_strides

__all__ = ["RULES", "VIEWS", "Made", "made_by_creator", "made_by_ufunc"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """A new array, or a scalar where NumPy returns one."""

    shape: Shape
    dtype: np.dtype[Any]
    strides: Shape | None = None
    """None for C order."""
    is_scalar: bool = False


def made_by_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], promoted: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Made, ...]:
    """Return what a ufunc makes; `promoted` is what decides the promotion of each input (a dtype or a Python type)."""
    requested = keywords.get("signature") or keywords.get("dtype")
    if method in {"reduce", "accumulate", "reduceat"}:
        return (_made_along(ufunc, method, inputs, keywords),)
    dtypes = resolved_dtypes(ufunc, tuple(promoted), requested, keywords.get("casting", "same_kind"))
    if not dtypes:
        raise TypeError(f"ufunc {ufunc.__name__!r} has no loop for the dtypes {', '.join(map(str, promoted))}.")
    layouts = [np.asarray(x) if not isinstance(x, np.ndarray) else x for x in inputs]
    if method == "outer":
        shape, strides = layouts[0].shape + layouts[1].shape, None
    elif ufunc.signature is not None:
        shape, strides = _product_shape(ufunc.__name__, *(x.shape for x in layouts)), None
    else:
        shape, strides = _broadcast(*layouts)
    is_scalar = shape == () and not isinstance(keywords.get("out"), tuple)
    outputs = [np.dtype(name) for name in dtypes[ufunc.nin :]]
    return tuple(
        Made(
            shape, d, packed_strides(shape, d.itemsize, axis_order(len(shape), strides)) if strides else None, is_scalar
        )
        for d in outputs
    )


def made_by_creator(name: str, original: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> Made:
    """Return what `np.empty`, `np.zeros`, `np.arange`… make; those whose length depends on values are run."""
    if name in {"empty", "zeros", "ones", "full"}:
        shape = arguments[0] if arguments else keywords["shape"]
        position = 2 if name == "full" else 1
        default = np.asarray(arguments[1] if len(arguments) > 1 else keywords.get("fill_value")).dtype
        dtype = keywords.get("dtype", arguments[position] if len(arguments) > position else None)
        if dtype is None:
            dtype = default if name == "full" else float
        lengths = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
        return Made(lengths, np.dtype(dtype))
    small = original(*arguments, **keywords)
    return Made(small.shape, small.dtype)


def _broadcast(*layouts: np.ndarray) -> tuple[Shape, list[Shape]]:
    """Return the common shape, and each operand's strides along it (0 where it does not move)."""
    shape = np.broadcast_shapes(*(x.shape for x in layouts))
    strides = []
    for x in layouts:
        steps = tuple(0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True))
        strides.append((0,) * (len(shape) - len(steps)) + steps)
    return shape, strides


def _like(shape: Shape, dtype: Any, layouts: Sequence[np.ndarray]) -> Made:
    """Return a new array whose axes are ordered as the operands' (NumPy's order "K")."""
    _, strides = _broadcast(*layouts)
    dtype = np.dtype(dtype)
    return Made(shape, dtype, packed_strides(shape, dtype.itemsize, axis_order(len(shape), strides)))


def _product_shape(name: str, a: Shape, b: Shape) -> Shape:
    if name == "vecdot":
        return np.broadcast_shapes(a, b)[:-1]
    rows = name == "vecmat" or (name == "matmul" and len(a) == 1)
    columns = name == "matvec" or (name == "matmul" and len(b) == 1)
    a = (*a[:-1], 1, a[-1]) if rows else a
    b = (*b, 1) if columns else b
    if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
        raise ValueError(f"{name} needs inner dimensions that agree; got shapes {a} and {b}.")
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return batch + (() if rows else a[-2:-1]) + (() if columns else b[-1:])


def _axes(axis: Any, rank: int) -> Shape:
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not rank and axis in (0, -1):  # NumPy lets a scalar be reduced along its "first" axis
        return ()
    if any(not -rank <= a < rank for a in axes):
        raise np.exceptions.AxisError(next(a for a in axes if not -rank <= a < rank), rank)
    return tuple(a % rank for a in axes)


def _reduced(a: np.ndarray, axis: Any, keepdims: bool, dtype: Any, ordered: bool = True) -> Made:
    axes, dtype = _axes(axis, a.ndim), np.dtype(dtype)
    kept = [i for i in range(a.ndim) if i not in axes]
    full = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    shape = full if keepdims else tuple(a.shape[i] for i in kept)
    strides = None
    if ordered:
        steps = tuple(0 if n == 1 else s for n, s in zip(a.shape, a.strides, strict=True))
        packed = packed_strides(full, dtype.itemsize, axis_order(a.ndim, [steps]))
        strides = packed if keepdims else tuple(packed[i] for i in kept)
    return Made(shape, dtype, strides, is_scalar=shape == ())


@cache
def _dtype_of(function: Callable[..., Any], *dtypes: np.dtype[Any], **keywords: Any) -> np.dtype[Any]:
    """Dtype of what a function returns, tried on one element."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.ones(1, dtype) for dtype in dtypes), **keywords)).dtype


def _made_along(ufunc: np.ufunc, method: str, inputs: Sequence[Any], keywords: dict[str, Any]) -> Made:
    a = inputs[0]
    given = dict(zip(("axis", "dtype"), inputs[2 if method == "reduceat" else 1 :], strict=False))
    options = {**given, **keywords}
    axis, dtype = options.get("axis", 0), options.get("dtype")
    made = np.dtype(dtype) if dtype is not None else _dtype_of(ufunc.reduce, a.dtype)
    if method == "reduce":
        return _reduced(a, axis, bool(options.get("keepdims")), made)
    if method == "accumulate":
        return _like(a.shape, made, [a])
    indices, (axis,) = np.asarray(inputs[1]), _axes(axis, a.ndim)
    return Made((*a.shape[:axis], len(indices), *a.shape[axis + 1 :]), made)


def _reduction(function: Callable[..., Any]) -> Callable[..., Made]:
    def rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Made:
        made = np.dtype(dtype) if dtype is not None else _dtype_of(function, a.dtype)
        return _reduced(a, axis, keepdims is True, made)

    return rule


def _extreme(function: Callable[..., Any]) -> Callable[..., Made]:
    def rule(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Made:
        return _reduced(a, axis, keepdims is True, _dtype_of(function, a.dtype))

    return rule


def _deviation(function: Callable[..., Any]) -> Callable[..., Made]:
    def rule(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False
    ) -> Made:
        made = np.dtype(dtype) if dtype is not None else _dtype_of(function, a.dtype)
        return _reduced(a, axis, keepdims is True, made)

    return rule


def _position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Made:
    return _reduced(a, axis, keepdims is True, np.intp, ordered=False)


def _cumulative(function: Callable[..., Any]) -> Callable[..., Made]:
    def rule(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Made:
        made = np.dtype(dtype) if dtype is not None else _dtype_of(function, a.dtype)
        return Made((a.size,), made) if axis is None else _like(a.shape, made, [a])

    return rule


def _elementwise(*arrays: Any, dtype: Any = None) -> Made:
    layouts = [np.asarray(x) for x in arrays if x is not None]
    return _like(np.broadcast_shapes(*(x.shape for x in layouts)), dtype or layouts[0].dtype, layouts)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **bounds: Any) -> Made:
    given = [b for b in (a_min, a_max, bounds.get("min"), bounds.get("max")) if b is not None]
    weak = [type(b) if type(b) in (int, float, complex) else np.asarray(b).dtype for b in given]
    return _elementwise(a, *given, dtype=np.result_type(a.dtype, *(w(0) if isinstance(w, type) else w for w in weak)))


def _converted(a: Any, dtype: Any, order: str = "K", *_: Any, **__: Any) -> Any:
    return _copied(a, order, dtype)


def _copied(a: Any, order: str = "K", dtype: Any = None, **_: Any) -> Made:
    dtype = np.dtype(dtype) if dtype is not None else a.dtype
    if order == "C":
        return Made(a.shape, dtype)
    if order == "F" or (order == "A" and a.flags.f_contiguous and not a.flags.c_contiguous):
        return Made(a.shape, dtype, packed_strides(a.shape, dtype.itemsize, range(a.ndim)[::-1]))
    return _like(a.shape, dtype, [a]) if order == "K" else Made(a.shape, dtype)


def _flattened(a: Any, order: str = "C") -> Made:
    return Made((a.size,), a.dtype)


def _raveled(a: Any, order: str = "C") -> Any:
    return _reshaped(a, -1, order=order)


def _reshaped(a: Any, *shape: Any, order: str = "C", **options: Any) -> Any:
    wanted = shape[0] if len(shape) == 1 else shape
    if isinstance(wanted, tuple) and len(shape) == 2 and isinstance(shape[1], str):
        wanted, order = shape
    wanted = options.get("shape", wanted)
    try:
        return np.reshape(a, wanted, order=order, copy=False)  # type: ignore[call-overload]
    except ValueError as error:
        if "copy" not in str(error):
            raise
    lengths = [wanted] if isinstance(wanted, int) else list(wanted)
    if -1 in lengths:
        lengths[lengths.index(-1)] = a.size // max(-math.prod(lengths), 1)
    axes = range(len(lengths))[::-1] if order == "F" else range(len(lengths))
    return Made(tuple(lengths), a.dtype, packed_strides(tuple(lengths), a.itemsize, axes))


def _created_like(a: Any, *_: Any, dtype: Any = None, order: str = "K", shape: Any = None, **__: Any) -> Made:
    if shape is not None:
        return Made((shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype or a.dtype))
    return _copied(a, order, dtype)


def _filled_like(a: Any, fill_value: Any, *rest: Any, **options: Any) -> Made:
    return _created_like(a, *rest, **options)


def _joined(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Made:
    layouts = [np.asarray(a) for a in arrays]
    dtype = np.dtype(dtype) if dtype is not None else np.result_type(*(a.dtype for a in layouts))
    if axis is None:
        return Made((sum(a.size for a in layouts),), dtype)
    (axis,) = _axes(axis, layouts[0].ndim)
    shape = list(layouts[0].shape)
    for other in layouts[1:]:
        if [n for i, n in enumerate(other.shape) if i != axis] != [n for i, n in enumerate(shape) if i != axis]:
            raise ValueError(
                f"concatenate needs shapes that agree but for axis {axis}; got {[a.shape for a in layouts]}."
            )
    shape[axis] = sum(a.shape[axis] for a in layouts)
    order = axis_order(len(shape), [a.strides for a in layouts])
    return Made(tuple(shape), dtype, packed_strides(tuple(shape), dtype.itemsize, order))


def _stacked(arrays: Any, axis: int = 0, out: Any = None, **options: Any) -> Made:
    return _joined([np.expand_dims(np.asarray(a), axis) for a in arrays], axis, **options)


def _chosen(condition: Any, x: Any = None, y: Any = None) -> Made:
    if x is None or y is None:
        raise TypeError(_NEEDS_VALUES.format("np.where(condition) with one argument"))
    weak = [v if type(v) in (int, float, complex) else np.asarray(v).dtype for v in (x, y)]
    return _elementwise(condition, x, y, dtype=np.result_type(*weak))


def _taken(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = None) -> Made:
    index = np.asarray(indices)
    if axis is None:
        return Made(index.shape, a.dtype)
    (axis,) = _axes(axis, a.ndim)
    return Made(a.shape[:axis] + index.shape + a.shape[axis + 1 :], a.dtype)


def _dot(a: Any, b: Any, out: Any = None) -> Made:
    dtype = np.result_type(a.dtype, b.dtype)
    if a.ndim == 0 or b.ndim == 0:
        return _like(np.broadcast_shapes(a.shape, b.shape), dtype, [a, b])
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ValueError(f"dot needs inner dimensions that agree; got shapes {a.shape} and {b.shape}.")
    shape = a.shape[:-1] + (b.shape[:-2] + b.shape[-1:] if b.ndim > 1 else ())
    return Made(shape, dtype, is_scalar=shape == ())


def _inner(a: Any, b: Any) -> Made:
    shape = a.shape[:-1] + b.shape[:-1]
    return Made(shape, np.result_type(a.dtype, b.dtype), is_scalar=shape == ())


def _outer(a: Any, b: Any, out: Any = None) -> Made:
    return Made((a.size, b.size), np.result_type(a.dtype, b.dtype))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Made:
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    left, right = (
        set(_axes(tuple(x) if not isinstance(x, int) else x, n.ndim)) for x, n in zip(axes, (a, b), strict=True)
    )
    shape = tuple(n for i, n in enumerate(a.shape) if i not in left)
    return Made(shape + tuple(n for i, n in enumerate(b.shape) if i not in right), np.result_type(a.dtype, b.dtype))


def _einsum(subscripts: Any, *arrays: Any, **options: Any) -> Made:
    if not isinstance(subscripts, str) or "." in subscripts:
        raise TypeError(_UNKNOWN.format("np.einsum without plain letters for subscripts"))
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for letters, a in zip(inputs.split(","), arrays, strict=True):
        lengths.update(zip(letters, a.shape, strict=True))
    if not arrow:
        output = "".join(sorted(x for x in lengths if inputs.replace(",", "").count(x) == 1))
    shape = tuple(lengths[x] for x in output)
    return Made(shape, np.result_type(*(a.dtype for a in arrays)), is_scalar=shape == ())


def _sorted(a: Any, axis: Any = -1, *_: Any, **__: Any) -> Made:
    return Made((a.size,), a.dtype) if axis is None else _like(a.shape, a.dtype, [a])


def _sorting(a: Any, axis: Any = -1, *_: Any, **__: Any) -> Made:
    return Made((a.size,) if axis is None else a.shape, np.dtype(np.intp))


def _padded(array: Any, pad_width: Any, *_: Any, **__: Any) -> Made:
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    shape = tuple(n + before + after for n, (before, after) in zip(array.shape, widths, strict=True))
    order = range(array.ndim)[::-1] if array.flags.fnc else range(array.ndim)
    return Made(shape, array.dtype, packed_strides(shape, array.itemsize, order))


def _inverse(a: Any, *_: Any, **__: Any) -> Made:
    return Made(a.shape, _float(a.dtype))


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype that linear algebra computes in: float64 for whole numbers."""
    return dtype if dtype.kind in "fc" else np.dtype(float)


def _solution(a: Any, b: Any) -> Made:
    return Made(b.shape, np.result_type(_float(a.dtype), _float(b.dtype)))


def _determinant(a: Any) -> Made:
    shape = a.shape[:-2]
    return Made(shape, _float(a.dtype), is_scalar=shape == ())


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Made:  # noqa: A002
    return _reduced(x, axis, keepdims, _dtype_of(np.linalg.norm, x.dtype))


def _transform(function: Callable[..., Any], length: Callable[[int], int]) -> Callable[..., Made]:
    def rule(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Made:
        shape = list(a.shape)
        shape[axis] = length(shape[axis] if n is None else n)
        dtype = _dtype_of(function, a.dtype)
        return Made(tuple(shape), dtype, packed_strides(tuple(shape), dtype.itemsize, axis_order(a.ndim, [a.strides])))

    return rule


_NEEDS_VALUES = "{} needs values, and an array_like has only a shape and a dtype: pass a real array to trace it."
_UNKNOWN = "{} has no shape rule here: pass a real array to trace it."

VIEWS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.squeeze, np.expand_dims, np.broadcast_to, np.flip,
        np.fliplr, np.flipud, np.split, np.array_split, np.hsplit, np.vsplit, np.diagonal, np.atleast_1d,
        np.atleast_2d, np.atleast_3d, np.real, np.imag, np.permute_dims, np.matrix_transpose,
    )
}  # fmt: skip
"""Functions that only make views, whatever the layout."""

RULES: dict[str, Callable[..., Any]] = {
    "add.reduce": _reduction(np.sum),
    "multiply.reduce": _reduction(np.prod),
    "maximum.reduce": _extreme(np.max),
    "minimum.reduce": _extreme(np.min),
    "logical_or.reduce": _extreme(np.any),
    "logical_and.reduce": _extreme(np.all),
    "add.accumulate": _cumulative(np.cumsum),
    "multiply.accumulate": _cumulative(np.cumprod),
    "mean": _reduction(np.mean),
    "var": _deviation(np.var),
    "std": _deviation(np.std),
    "argmax": _position,
    "argmin": _position,
    "clip": _clip,
    "round": lambda a, decimals=0, out=None: _elementwise(a),
    "conjugate": lambda a: _elementwise(a),
    "astype": _converted,
    "copy": _copied,
    "flatten": _flattened,
    "ravel": _raveled,
    "reshape": _reshaped,
    "zeros": _created_like,
    "ones": _created_like,
    "empty": _created_like,
    "full": _filled_like,
    "concatenate": _joined,
    "stack": _stacked,
    "vstack": lambda tup, **options: _joined(np.atleast_2d(*tup), 0, **options),
    "hstack": lambda tup, **options: _joined(tup, 0 if np.ndim(tup[0]) == 1 else 1, **options),
    "where": _chosen,
    "take": _taken,
    "dot": _dot,
    "inner": _inner,
    "vdot": lambda a, b: Made((), np.result_type(a.dtype, b.dtype), is_scalar=True),
    "outer": _outer,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "sort": _sorted,
    "argsort": _sorting,
    "pad": _padded,
    "linalg.inv": _inverse,
    "linalg.cholesky": _inverse,
    "linalg.solve": _solution,
    "linalg.det": _determinant,
    "linalg.norm": _norm,
    "fft.fft": _transform(np.fft.fft, lambda n: n),
    "fft.ifft": _transform(np.fft.ifft, lambda n: n),
    "fft.rfft": _transform(np.fft.rfft, lambda n: n // 2 + 1),
}
