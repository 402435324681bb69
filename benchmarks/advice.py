"""Does advice keep its word? Each rule on functions made for it: gain predicted, and gain of the rewrite by hand.

    python benchmarks/advice.py          all
    python benchmarks/advice.py in       those whose rule's name contains "in"

The function before and after the change are measured against each other in one run. Goal: the sign always right, nine
gains in ten within 25 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import accel
from accel import allocator
from accel.advice import Advice, advise
from accel.measurement import Measurement, format_seconds, measure_calls, threads

SECONDS = 0.8
ROUNDS = 5
CLOSE = 0.25


@dataclass(frozen=True)
class Case:
    """A function, what the rule makes of it, and arrays to run both on."""

    rule: str
    name: str
    before: Callable[..., Any]
    after: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    after_arrays: tuple[np.ndarray, ...] | None = None
    after_threads: int = 1


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def polynomial(x: np.ndarray) -> np.ndarray:
    return ((x * 2.0 + 1.0) * x + 3.0) * x


def polynomial_in_place(x: np.ndarray) -> np.ndarray:
    t = x * 2.0
    t += 1.0
    t *= x
    t += 3.0
    t *= x
    return t


def named(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a = np.multiply(x, 2.0)
    b = np.add(a, y)
    c = np.tanh(b)
    return np.multiply(c, y)


def named_in_place(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a = np.multiply(x, 2.0)
    np.add(a, y, out=a)
    np.tanh(a, out=a)
    return np.multiply(a, y, out=a)


def kept(function: Callable[..., Any], like: np.ndarray) -> Callable[..., Any]:
    out = np.ones_like(like)
    return lambda *arrays: function(*arrays, out)


def named_out(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.multiply(x, 2.0, out=out)
    np.add(out, y, out=out)
    np.tanh(out, out=out)
    return np.multiply(out, y, out=out)


def polynomial_blocked(block: int) -> Callable[..., Any]:
    def blocked(x: np.ndarray) -> np.ndarray:
        out, scratch = np.empty_like(x), np.empty(block, x.dtype)
        for start in range(0, len(x), block):
            part, into = x[start : start + block], out[start : start + block]
            t = scratch[: len(part)]
            np.multiply(part, 2.0, out=t)
            np.add(t, 1.0, out=t)
            np.multiply(t, part, out=t)
            np.add(t, 3.0, out=t)
            np.multiply(t, part, out=into)
        return out

    return blocked


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_blocked(rows: int) -> Callable[..., Any]:
    def blocked(x: np.ndarray) -> np.ndarray:
        out, t, r = np.empty_like(x), np.empty((rows, x.shape[1]), x.dtype), np.empty((rows, 1), x.dtype)
        for start in range(0, len(x), rows):
            part, into = x[start : start + rows], out[start : start + rows]
            tt, rr = t[: len(part)], r[: len(part)]
            np.max(part, axis=-1, keepdims=True, out=rr)
            np.subtract(part, rr, out=tt)
            np.exp(tt, out=tt)
            np.sum(tt, axis=-1, keepdims=True, out=rr)
            np.divide(tt, rr, out=into)
        return out

    return blocked


def compiled_polynomial() -> Callable[..., Any]:
    import numba

    @numba.njit(error_model="numpy")
    def loop(x, out):
        two, one, three = x.dtype.type(2), x.dtype.type(1), x.dtype.type(3)
        for i in range(x.size):
            out[i] = ((x[i] * two + one) * x[i] + three) * x[i]

    def fused(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        loop(x, out)
        return out

    return fused


def compiled_normalize() -> Callable[..., Any]:
    import numba

    @numba.njit(error_model="numpy")
    def loop(x, y, out):
        for i in range(x.size):
            out[i] = (x[i] - y[i]) / (x[i] + y[i])

    def fused(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        loop(x, y, out)
        return out

    return fused


def strided(x: np.ndarray) -> np.ndarray:
    return (x[::16] * 2.0 + x[::16]) * x[::16] + x[::16]


def strided_once(x: np.ndarray) -> np.ndarray:
    c = np.ascontiguousarray(x[::16])
    return (c * 2.0 + c) * c + c


def columns(x: np.ndarray) -> list[Any]:
    return [x[:, j].sum() for j in range(x.shape[1])]


def columns_as_rows(x: np.ndarray) -> list[Any]:
    t = np.ascontiguousarray(x.T)
    return [t[j].sum() for j in range(t.shape[0])]


def row_loop(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[i] * 2.0 + y[i]
    return out


def row_batch(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    np.add(x * 2.0, y, out=out)
    return out


def product_loop(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = np.empty((len(a), b.shape[1]), a.dtype)
    for i in range(len(a)):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total
    return c


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b


def cases(machine: accel.Machine) -> list[Case]:
    """Return the cases; block sizes are those the advice names, which for this machine's L2 are worked out here."""
    l2 = next(cache.size_bytes for cache in machine.caches if cache.level == 2)
    medium, large = normal(200_000), normal(8_000_000)
    wide, small = normal(4_000_000, dtype="float64"), normal(500, 100)
    square, double = normal(512, 512), normal(512, 512, dtype="float64")
    matrix = normal(2000, 2000)
    rows = l2 // (3 * matrix.strides[0])
    scale = np.float64(0.7978845608)
    found = [
        Case(
            "no float64 promotion",
            "x * np.float64 + 1, 200K",
            lambda x: x * scale + 1,
            lambda x: x * float(scale) + 1,
            (medium,),
        ),
        Case(
            "no float64 promotion",
            "tanh(x * np.float64), 8M",
            lambda x: np.tanh(x * scale),
            lambda x: np.tanh(x * float(scale)),
            (large,),
        ),
        Case("power as product", "x**3, 200K", lambda x: x**3, lambda x: x * x * x, (medium,)),
        Case("power as product", "x + x**4, 8M", lambda x: x + x**4, lambda x: x + np.square(np.square(x)), (large,)),
        Case("in place", "polynomial, 200K", polynomial, polynomial_in_place, (medium,)),
        Case("in place", "named temporaries, 8M", named, named_in_place, (large, large[::-1].copy())),
        Case(
            "out=",
            "x + y, 8M",
            lambda x, y: x + y,
            kept(lambda x, y, out: np.add(x, y, out=out), large),
            (large, large[::-1].copy()),
        ),
        Case("out=", "named temporaries, 8M", named, kept(named_out, large), (large, large[::-1].copy())),
        Case("blocking", "polynomial, 8M", polynomial, polynomial_blocked(l2 // 12 // 16 * 16), (large,)),
        Case("blocking", "softmax over rows, 2000 x 2000", softmax, softmax_blocked(rows), (matrix,)),
        Case("contiguous access", "every 16th, used 4 times", strided, strided_once, (large,)),
        Case("contiguous access", "sums of 200 columns", columns, columns_as_rows, (normal(5000, 200),)),
        Case("float32", "polynomial, 4M", polynomial, polynomial, (wide,), (wide.astype(np.float32),)),
        Case("float32", "a @ b, 512", product, product, (double, double), (square, square)),
        Case("batching", "500 rows of 100", row_loop, row_batch, (small, small[::-1].copy())),
        Case("batching", "500 sums of 100", lambda x: [row.sum() for row in x], lambda x: x.sum(axis=-1), (small,)),
        Case(
            "BLAS for einsum",
            "ik,kj->ij, 256",
            lambda a, b: np.einsum("ik,kj->ij", a, b),
            product,
            (normal(256, 256),) * 2,
        ),
        Case(
            "BLAS for einsum",
            "ik,jk->ij, 256",
            lambda a, b: np.einsum("ik,jk->ij", a, b),
            lambda a, b: a @ b.T,
            (normal(256, 256), normal(256, 256)),
        ),
        Case("BLAS for loops", "triple loop, 40", product_loop, product, (normal(40, 40), normal(40, 40))),
    ]
    if machine.numba_version is not None:
        found += [
            Case("fusing", "polynomial, 200K", polynomial, compiled_polynomial(), (medium,)),
            Case("fusing", "polynomial, 8M", polynomial, compiled_polynomial(), (large,)),
            Case(
                "fusing",
                "(x - y) / (x + y), 8M",
                lambda x, y: (x - y) / (x + y),
                compiled_normalize(),
                (large, large[::-1].copy()),
            ),
        ]
    if machine.usable_cpus > 1:
        found += [
            Case("threads", "a @ b, 512, float32", product, product, (square, square), None, machine.usable_cpus),
            Case("threads", "a @ b, 512, float64", product, product, (double, double), None, machine.usable_cpus),
        ]
    return found


def achieved(case: Case) -> dict[str, Measurement]:
    """Measure before and after; where the change is in the number of threads, switching it is not timed."""
    after_arrays = case.after_arrays or case.arrays
    calls = {"before": lambda: case.before(*case.arrays), "after": lambda: case.after(*after_arrays)}
    if case.after_threads == 1:
        with threads(1):
            return measure_calls(calls, seconds=SECONDS)
    found: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            with threads(case.after_threads if name == "after" else 1):
                measured = measure_calls({name: call}, seconds=SECONDS / ROUNDS, warm_up_seconds=0.02)
                found[name] += measured[name].samples_seconds
    return {name: Measurement(name, tuple(samples), 1, SECONDS) for name, samples in found.items()}


def predicted(case: Case, machine: accel.Machine) -> Advice | None:
    """Return what the rule says of the case; None where it says nothing, or less than 2 %."""
    return next((a for a in advise(case.before, *case.arrays, machine=machine) if a.rule == case.rule), None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Apply the rules named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rule", nargs="?", default="", help="part of a rule's name; all rules if none is given")
    wanted = parser.parse_args(arguments).rule
    allocator.settle()
    machine = accel.this_machine()
    table = Table(title=f"Advice on {machine}", title_justify="left")
    for head in (
        "rule",
        "function",
        "predicted",
        "achieved",
        "spread",
        "sign",
        f"within {CLOSE:.0%}",
        "after, predicted",
        "measured",
    ):
        table.add_column(head, justify="left" if head in ("rule", "function") else "right")
    signs, close = [], []
    for case in cases(machine):
        if wanted not in case.rule:
            continue
        advice = predicted(case, machine)
        measured = achieved(case)
        gain = measured["before"].best_seconds / measured["after"].best_seconds
        spread = max(m.spread_fraction for m in measured.values())
        expected = advice.predicted_gain if advice else 1.0
        # Advice that is not given is right where following it brings next to nothing.
        right = gain > 1.0 if advice else gain < 1.1
        signs.append(right)
        close.append(abs(expected / gain - 1) <= CLOSE if advice else right)
        table.add_row(
            case.rule,
            case.name,
            f"{expected:.2f}x" if advice else "none",
            f"{gain:.2f}x",
            f"{spread:.0%}",
            "right" if right else "WRONG",
            "yes" if close[-1] else "no",
            format_seconds(advice.predicted_seconds) if advice else "",
            format_seconds(measured["after"].best_seconds),
        )
    console = Console(width=150)
    console.print(table)
    console.print(f"sign right {sum(signs)} of {len(signs)}, within {CLOSE:.0%} {sum(close)} of {len(close)}")


if __name__ == "__main__":
    main()
