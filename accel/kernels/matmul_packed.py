"""Packed matrix product: the best form of the ladder, of which `accel.kernels.compiled.matmul_packed` has the loops."""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.fallback import compiled
from accel.kernels.matmul_arguments import FLOATS, arguments, matrices, whole_cost
from accel.kernels.matmul_blocks import BlockSizes, block_sizes
from accel.kernels.threads import run_parts, spans, thread_count

__all__ = ["packed"]

Array = NDArray[Any]

FEW = 32
"""With so few rows or columns, packing the other operand and tiles that are not full cost more than a BLAS spends."""
PART_FLOPS = 4_000_000
"""A thread is worth starting for this much work: handing it over costs what some two million FLOPs do."""
_LINE_BYTES = 64


def _packed_cost(
    a: Any,
    b: Any,
    *,
    out: Any = None,  # noqa: ARG001
    threads: SupportsIndex = 1,
    blocks: BlockSizes | None = None,  # noqa: ARG001
) -> Cost:
    thread_count(threads)
    return whole_cost(a, b, calls=1)


@costs(_packed_cost, opaque=True)
def packed(
    a: ArrayLike,
    b: ArrayLike,
    *,
    out: Array | None = None,
    threads: SupportsIndex = 1,
    blocks: BlockSizes | None = None,
) -> Array:
    """Return ``a @ b`` as a BLAS does: blocks that fit the caches, packed, and a tile of the result in registers.

    Compiled from Python on first use, which takes some two seconds for each dtype; the code is kept on disk. It takes
    float32 and float64. Left to `numpy.matmul` are other dtypes, operands of two dtypes or of another byte order,
    results of 32 rows or columns or fewer, for which packing does not pay, and everything where Numba is missing.

    An operand whose strides make neither rows nor columns contiguous is copied first, and a result of such strides is
    written by way of a copy. Each thread keeps its workspace, as large as the packed blocks, for the next call.

    Its cost has each operand once, which is what the blocks approach; packing is not counted.

    Parameters
    ----------
    a, b, out
        See `triple_loop`.
    threads : int
        How many threads to use at most: the longer side of the result is cut among them, where it is worth it.
    blocks : BlockSizes, optional
        Other block sizes than `block_sizes` gives for this computer: mr and nr are those of its registers.

    Raises
    ------
    TypeError, ValueError
        As `triple_loop`; for `threads` that is not a whole number, or below 1; ValueError for `blocks` of another
        dtype or for other registers.

    References
    ----------
    Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication, 2008, 10.1145/1356052.1356053.

    >>> packed(np.ones((40, 5)), np.ones((5, 50)))[39, 48:]
    array([5., 5.])
    >>> packed.cost(np.ones((40, 5)), np.ones((5, 50))).flops
    20000
    """
    if out is not None and blocks is None and type(threads) is int and threads == 1 and _multiply_at_once(a, b, out):
        return out
    a, b, result = arguments(a, b, out)
    threads = thread_count(threads)
    kernel = _kernel(result.dtype) if a.dtype == b.dtype == result.dtype else None
    if kernel is None:
        return np.matmul(a, b, out=result)
    sizes = kernel.sizes if blocks is None else kernel.checked(blocks)
    if min(result.shape[-2:]) <= FEW or not a.shape[-1]:
        return np.matmul(a, b, out=result)
    if result.ndim == 2:
        kernel.multiply(np.asarray(a), np.asarray(b), np.asarray(result), sizes, threads)
    else:
        for left, right, target in matrices(*map(np.asarray, (a, b, result))):
            kernel.multiply(left, right, target, sizes, threads)
    return result


def _multiply_at_once(a: Any, b: Any, out: Any) -> bool:
    """Multiply in the usual case, which compiled code recognizes sooner than the checks of `arguments` would take.

    A product of 64 x 64 matrices takes 8 microseconds, and these checks 4. Return False, with nothing done, where the
    arguments are not plain matrices in C order of one dtype, or this thread has no workspace yet.
    """
    if not (type(a) is type(b) is type(out) is np.ndarray and a.dtype is b.dtype is out.dtype):
        return False
    kernel = _kernels.get(a.dtype)
    if kernel is None or not (a.ndim == b.ndim == out.ndim == 2) or min(out.shape) <= FEW or not a.shape[1]:
        return False
    if not (a.flags.aligned and b.flags.aligned and out.flags.aligned and out.flags.writeable):
        return False
    return kernel.multiply_at_once(a, b, out)


_kernels: dict[np.dtype, _Kernel] = {}
"""Those that are compiled, for `_multiply_at_once`."""


class _Kernel:
    """The compiled product for one dtype, with this computer's block sizes."""

    def __init__(self, module: ModuleType, dtype: np.dtype) -> None:
        module.prepare(dtype)
        self.compiled = module
        self.dtype = dtype
        self.sizes = block_sizes(dtype=dtype)
        self.workspaces = threading.local()
        _kernels[dtype] = self

    def multiply_at_once(self, a: Array, b: Array, c: Array) -> bool:
        """Write ``a @ b`` to `c` and return True if compiled code finds that it can."""
        workspace = getattr(self.workspaces, "array", None)
        if workspace is None:
            return False
        sizes = self.sizes
        done: bool = self.compiled.multiply(a, b, c, workspace, sizes.mc, sizes.nc, sizes.kc, False)
        return done

    def checked(self, blocks: BlockSizes) -> BlockSizes:
        own = self.sizes
        if (blocks.dtype, blocks.mr, blocks.nr) != (own.dtype, own.mr, own.nr):
            raise ValueError(
                f"blocks must be for {own.dtype} and tiles of {own.mr} x {own.nr}; got {blocks.dtype} and "
                f"{blocks.mr} x {blocks.nr}. Pass dataclasses.replace(block_sizes(dtype=...), mc=...)."
            )
        return blocks

    def multiply(self, a: Array, b: Array, c: Array, sizes: BlockSizes, threads: int) -> None:
        """Write ``a @ b`` to `c`, which overlaps neither."""
        if not _has_rows(c):
            if _has_rows(c.T):
                a, b, c = b.T, a.T, c.T  # cᵀ = bᵀ aᵀ
            else:
                whole = np.empty(c.shape, c.dtype)
                self.multiply(a, b, whole, sizes, threads)
                c[...] = whole
                return
        a, b = _with_unit_stride(a), _with_unit_stride(b)
        if threads == 1:
            self._run(a, b, c, sizes)
        else:
            self._run_parts(a, b, c, sizes, threads)

    def _run_parts(self, a: Array, b: Array, c: Array, sizes: BlockSizes, threads: int) -> None:
        """Cut the longer side of the result into parts for as many threads as it is worth."""
        (m, n), inner = c.shape, a.shape[1]
        threads = min(threads, 2 * m * n * inner // PART_FLOPS) or 1
        if n >= m:
            parts = [(a, b[:, j:k], c[:, j:k], sizes) for j, k in spans(n, threads, multiple=sizes.nr)]
        else:
            parts = [(a[i:k], b, c[i:k], sizes) for i, k in spans(m, threads, multiple=sizes.mr)]
        run_parts(self._run, parts, threads)

    def _run(self, a: Array, b: Array, c: Array, sizes: BlockSizes) -> None:
        (m, n), inner = c.shape, a.shape[1]
        mc, nc, kc = min(sizes.mc, m + sizes.mr), min(sizes.nc, n + sizes.nr), min(sizes.kc, inner)
        self.compiled.multiply(a, b, c, self._workspace(mc, nc, kc), sizes.mc, sizes.nc, sizes.kc, True)

    def _workspace(self, mc: int, nc: int, kc: int) -> Array:
        """Return this thread's workspace, on a boundary of cache lines, made larger where it is too small."""
        count = self.compiled.workspace_elements(self.dtype, mc, nc, kc)
        workspace: Array | None = getattr(self.workspaces, "array", None)
        if workspace is None or workspace.size < count:
            line = _LINE_BYTES // self.dtype.itemsize
            memory = np.zeros(count + line, self.dtype)
            start = -memory.ctypes.data % _LINE_BYTES // self.dtype.itemsize
            workspace = self.workspaces.array = memory[start : start + count]
        return workspace


@functools.cache
def _kernel(dtype: np.dtype) -> _Kernel | None:
    """Return the compiled product for a dtype, compiling it; None for other dtypes and where Numba is missing."""
    if dtype not in FLOATS:
        return None
    module = compiled("matmul_packed")
    return None if module is None else _Kernel(module, np.dtype(dtype))


def _has_rows(x: Array) -> bool:
    """Whether neighbours in a row are neighbours in memory, and all elements lie whole elements apart."""
    rows, columns = x.strides
    return columns == x.itemsize and rows % columns == 0 and x.flags.aligned


def _with_unit_stride(x: Array) -> Array:
    """Return `x`, copied where neither its rows nor its columns are contiguous."""
    return x if _has_rows(x) or _has_rows(x.T) else np.ascontiguousarray(x)
