"""Rewrites: ways to write a function that make it faster, each as the calls that the function would then make.

A rule looks at a trace and gives rewrites; it decides whether one is right, never whether it pays. That is left to the
price of the calls before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accel.rewrites.batching import batching
from accel.rewrites.dataflow import Rewrite, Situation, footprint_bytes
from accel.rewrites.memory import contiguous_access, in_place, results_into_given_memory
from accel.rewrites.passes import blocking, fusing
from accel.rewrites.powers import powers_as_products
from accel.rewrites.precision import float32_for_float64, no_float64_promotion
from accel.rewrites.products import blas_for_einsum, blas_for_loops, threads_for_products

__all__ = ["RULES", "Rewrite", "Situation", "footprint_bytes"]

RULES: tuple[tuple[str, Callable[[Situation], Iterator[Rewrite]]], ...] = (
    ("no float64 promotion", no_float64_promotion),
    ("power as product", powers_as_products),
    ("in place", in_place),
    ("out=", results_into_given_memory),
    ("blocking", blocking),
    ("fusing", fusing),
    ("contiguous access", contiguous_access),
    ("float32", float32_for_float64),
    ("batching", batching),
    ("BLAS for einsum", blas_for_einsum),
    ("BLAS for loops", blas_for_loops),
    ("threads", threads_for_products),
)
"""Name and rule; several rewrites of one place by one rule are alternatives, of which the fastest counts."""
