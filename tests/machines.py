"""Machines for tests: one laptop, uncalibrated and with an invented but plausible calibration."""

from dataclasses import replace

from accel.machine import (
    Bandwidth,
    Blas,
    Cache,
    Calibration,
    CallCost,
    Ceiling,
    FreshPages,
    Machine,
    MatmulRate,
    Overlap,
    Peak,
    Stream,
)

LAPTOP = Machine(
    cpu_name="Some CPU @ 3.00GHz",
    architecture="x86_64",
    system="Linux",
    simd_bits=256,
    logical_cpus=4,
    affinity_cpus=4,
    quota_cpus=None,
    caches=(
        Cache(level=1, size_bytes=32 << 10, line_bytes=64, ways=8, shared_by_cpus=1),
        Cache(level=2, size_bytes=1 << 20, line_bytes=64, ways=8, shared_by_cpus=1),
        Cache(level=3, size_bytes=16 << 20, line_bytes=64, ways=None, shared_by_cpus=4),
    ),
    memory_bytes=16 << 30,
    blas=Blas(name="OpenBLAS", version="0.3.31", kernel="Haswell", threads=4),
    python_version="3.12.1",
    numpy_version="2.4.6",
    numba_version="0.68.1",
)

CALIBRATION = Calibration(
    taken_at="2026-01-02T03:04:05+00:00",
    duration_seconds=17.25,
    quick=False,
    steady=True,
    spread_fraction=0.031,
    peaks=(
        Peak("float32", 1, 1.0e11, "fma probe"),
        Peak("float32", 4, 3.9e11, "fma probe"),
        Peak("float64", 1, 5.0e10, "fma probe"),
    ),
    bandwidths=(
        Bandwidth("load", 1, (16384, 1 << 20, 1 << 27), (2.0e11, 9.0e10, 2.0e10)),
        Bandwidth("copy", 1, (16384, 1 << 20, 1 << 27), (2.1e11, 8.0e10, 1.9e10)),
        Bandwidth("copy", 4, (65536, 1 << 22, 1 << 27), (7.5e11, 3.0e11, 3.5e10)),
    ),
    streams=(Stream("1R1W", (16384, 1 << 20, 1 << 27), (1.1e-11, 1.5e-11, 6.1e-11), (0.02, 0.01, 0.05)),),
    ceilings=(Ceiling("add", "float32", 4.1e-7, 7.3e-11, 2.0e-9), Ceiling("add", "float64", 4.2e-7, 1.4e-10)),
    calls=(CallCost("mean", "method", 6e-6),),
    allocations=FreshPages((1 << 11, 1 << 25), (1.0e-11, 0.0)),
    fresh_pages=FreshPages((1 << 17, 1 << 25), (1.0e-10, 3.3e-10)),
    matmuls=(MatmulRate("float32", 1, 512, 512, 512, 0.00312),),
    interpreted_seconds=9.1e-8,
    reference_seconds=1e-6,
    python_call_seconds=4.0e-8,
    view_seconds=1.2e-7,
    overlaps=(Overlap("exp", 2.5),),
)

CALIBRATED = LAPTOP.with_calibration(CALIBRATION)
QUICK = LAPTOP.with_calibration(replace(CALIBRATION, quick=True))

DETAILED = LAPTOP.with_calibration(
    replace(
        CALIBRATION,
        streams=tuple(
            Stream(
                shape,
                (16384, 1 << 20, 1 << 27),
                tuple(each * factor for each in (1.1e-11, 1.5e-11, 6.1e-11)),
                (0.02,) * 3,
            )
            for shape, factor in (
                ("1R1W", 1.0),
                ("2R1W", 0.95),
                ("in place", 0.8),
                ("in place + read", 0.85),
                ("reduce", 0.9),
                ("strided", 0.8),
            )
        ),
        ceilings=tuple(
            Ceiling(name, dtype, 5e-7, element * (1 if dtype == "float32" else 2), 5e-9)
            for name, element in (
                ("add", 7e-11),
                ("add:scalar", 6e-11),
                ("multiply", 7e-11),
                ("multiply:scalar", 6e-11),
                ("divide", 2e-10),
                ("power", 4e-8),
                ("power:scalar", 5e-8),
                ("tanh", 1.2e-9),
                ("exp", 6e-10),
                ("copy", 6e-11),
                ("add.reduce", 1e-10),
                ("maximum.reduce", 8e-11),
                ("add:strided", 6e-10),
                ("multiply:strided", 6e-10),
            )
            for dtype in ("float32", "float64")
        ),
        allocations=FreshPages((1 << 11, 1 << 25), (1.0e-11, 2.0e-10)),
        matmuls=tuple(
            MatmulRate(
                dtype, threads, n, n, n, (1e-6 + 2 * n**3 / 8e10 / threads**0.9) * (1 if dtype == "float32" else 2)
            )
            for dtype in ("float32", "float64")
            for threads in (1, 4)
            for n in (8, 64, 512)
        ),
        overlaps=(Overlap("exp", 2.5), Overlap("tanh", 3.0)),
    )
)
"""With a cost of its own for each kind of call, so that rewrites differ in price."""
