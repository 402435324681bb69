"""Block sizes: how large the blocks of a packed matrix product are, from the caches, each with its reason."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from accel.records import Record

if TYPE_CHECKING:
    from accel.machine import Cache, Machine

__all__ = ["REGISTER_TILES", "BlockSizes", "block_sizes"]

REGISTER_TILES = {512: (14, 2), 256: (6, 2), 128: (8, 2)}
"""Vector bits -> rows of the micro-kernel's tile, and vectors in each row. The sums fill most of the 32 registers of
AVX-512 and NEON, or 12 of the 16 of AVX2: what is left holds a row of `b` and elements of `a`."""

_COLUMNS_WITHOUT_L3 = 4096


@dataclass(frozen=True)
class BlockSizes(Record):
    """Sizes of the blocks of ``a[m, k] @ b[k, n]``, in elements; `print` shows each with its reason."""

    dtype: str
    mr: int
    """Rows of the tile of the result that stays in registers."""
    nr: int
    """Columns of that tile."""
    kc: int
    """Steps of the inner dimension in a block."""
    mc: int
    """Rows of the block of `a`, a multiple of mr."""
    nc: int
    """Columns of the block of `b`, a multiple of nr."""
    reasons: tuple[str, ...]
    """One for each of mr, nr, kc, mc and nc."""

    def __str__(self) -> str:
        names = ("mr", "nr", "kc", "mc", "nc")
        lines = [f"{name} = {getattr(self, name):<6} {why}" for name, why in zip(names, self.reasons, strict=True)]
        return "\n".join([f"block sizes for {self.dtype}", *lines])


def block_sizes(machine: Machine | None = None, dtype: DTypeLike = np.float32) -> BlockSizes:
    """Return the block sizes of `packed` for a machine's caches, by the analytical model of Low et al.

    The micro-kernel reads a panel of `a`, mr x kc, and one of `b`, kc x nr, both in L1; the block of `a`, mc x kc,
    comes from L2, and that of `b`, kc x nc, from L3. A cache of W ways keeps a piece of memory for sure if the ways
    that all pieces take, each rounded up, are no more than W. One way is left to the result, which passes through.

    Parameters
    ----------
    machine : Machine, optional
        Whose caches and vector width to use; by default this computer's, detected once a process (about 0.05 s).
    dtype : dtype
        float32 or float64.

    Raises
    ------
    TypeError
        Another dtype.

    References
    ----------
    Low, Igual, Smith, Quintana-Ortí: Analytical Modeling Is Enough for High-Performance BLIS, 2016, 10.1145/2925987,
    sections 4.2 to 4.4. Where they fix which panel takes whole ways, here the better of the choices is taken.

    >>> sizes = block_sizes(dtype="float64")
    >>> sizes.mc % sizes.mr, sizes.nc % sizes.nr
    (0, 0)
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"block_sizes needs float32 or float64; got {dtype}. Other dtypes are left to numpy.matmul.")
    machine = _this_machine() if machine is None else machine
    rows, row_vectors = REGISTER_TILES[machine.simd_bits]
    itemsize = dtype.itemsize
    mr, nr = rows, row_vectors * machine.simd_bits // (8 * itemsize)
    kc, kc_reason = _depth(_cache(machine, 1) or _TYPICAL[1], mr * itemsize, nr * itemsize)
    mc, mc_reason = _rows(_cache(machine, 2) or _TYPICAL[2], mr, kc * itemsize, nr)
    nc, nc_reason = _columns(_cache(machine, 3), nr, kc * itemsize, mc)
    reasons = (
        f"rows of the tile: with {row_vectors} vectors each they make {mr * row_vectors} sums in registers",
        f"columns of the tile: {row_vectors} vectors of {machine.simd_bits} bits",
        kc_reason,
        mc_reason,
        nc_reason,
    )
    return BlockSizes(dtype.name, mr, nr, kc, mc, nc, reasons)


@dataclass(frozen=True)
class _Ways:
    """A cache as the model sees it."""

    name: str
    ways: int
    way_bytes: int

    def taken_by(self, size_bytes: int) -> int:
        return -(-size_bytes // self.way_bytes)


_TYPICAL = {1: _Ways("a typical L1", 8, 4 * 1024), 2: _Ways("a typical L2", 8, 64 * 1024)}
"""For a machine that does not tell."""


def _cache(machine: Machine, level: int) -> _Ways | None:
    """Return a cache level, of L3 one CPU's share; None where the machine names none."""
    cache: Cache | None = next((cache for cache in machine.caches if cache.level == level), None)
    if cache is None:
        return None
    ways = cache.ways or 8
    sharers = cache.shared_by_cpus if level == 3 else 1
    name = f"L{level}" if sharers == 1 else f"this CPU's share of L{level}"
    return _Ways(name, ways, cache.size_bytes // sharers // ways)


def _depth(cache: _Ways, left_bytes: int, right_bytes: int) -> tuple[int, str]:
    """Return the largest kc for which a panel of `a` (so many bytes a step), one of `b` and one way of `c` fit."""
    whole = cache.ways - 1
    choices = [
        min(right * cache.way_bytes // right_bytes, (whole - right) * cache.way_bytes // left_bytes)
        for right in range(1, whole)
    ]
    kc = max([1, *choices])
    left, right = cache.taken_by(kc * left_bytes), cache.taken_by(kc * right_bytes)
    return kc, (
        f"steps: panels of a and b then take {left} and {right} of the {cache.ways} ways of {cache.name}, "
        f"and one is left to c"
    )


def _rows(cache: _Ways, mr: int, row_bytes: int, nr: int) -> tuple[int, str]:
    """Return the largest mc for which the block of `a` fits beside a panel of `b` and one way of `c`."""
    panel = cache.taken_by(nr * row_bytes)
    ways = max(1, cache.ways - 1 - panel)
    mc = max(mr, ways * cache.way_bytes // row_bytes // mr * mr)
    return mc, f"rows: the block of a then takes {ways} of the {cache.ways} ways of {cache.name}, a panel of b {panel}"


def _columns(cache: _Ways | None, nr: int, column_bytes: int, mc: int) -> tuple[int, str]:
    """Return the largest nc for which the block of `b` fits beside the block of `a` and one way of `c`."""
    if cache is None:
        return -(-_COLUMNS_WITHOUT_L3 // nr) * nr, "columns: there is no L3 to fit; long enough to pay for packing a"
    block = cache.taken_by(mc * column_bytes)
    ways = max(1, cache.ways - 1 - block)
    nc = max(nr, ways * cache.way_bytes // column_bytes // nr * nr)
    return nc, f"columns: the block of b then takes {ways} of the {cache.ways} ways of {cache.name}, that of a {block}"


@functools.cache
def _this_machine() -> Any:
    """Return what this computer is, as wide as its compiled kernels compute."""
    from dataclasses import replace

    from accel import hardware
    from accel.kernels.fallback import compiled

    machine = hardware.detect()
    llvm = compiled("llvm")
    return machine if llvm is None else replace(machine, simd_bits=llvm.VECTOR_BITS)
