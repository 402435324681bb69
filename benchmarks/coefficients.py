"""Fit the polynomials of `accel.kernels.compiled.powers` and `accel.kernels.normal`; needs mpmath.

Each function is interpolated at the Chebyshev nodes of its interval, in 60 digits, which makes the largest error nearly
the smallest that the degree allows. The output is what the two modules hold; beside it stands the error, measured
between the nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

Function = Callable[[mp.mpf], mp.mpf]

MIDDLE = 4  # of the map t = (a - 4) / (a + 4), see accel.kernels.normal


def interpolate(function: Function, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Return the coefficients, from the constant up, of the polynomial through the Chebyshev nodes of [low, high]."""
    count = degree + 1
    angles = [mp.pi * (2 * k + 1) / (2 * count) for k in range(count)]
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(angle) for angle in angles]
    powers = mp.matrix([[node**j for j in range(count)] for node in nodes])
    return list(mp.lu_solve(powers, mp.matrix([function(node) for node in nodes])))


def power_quotient(f: mp.mpf) -> mp.mpf:
    """Return (2^f - 1) / f."""
    return mp.expm1(f * mp.log(2)) / f if f else mp.log(2)


def scaled_tail(t: mp.mpf) -> mp.mpf:
    """Return Φ(-a) · exp(a²/2) as a function of t = (a - MIDDLE) / (a + MIDDLE)."""
    a = MIDDLE * (1 + t) / (1 - t)
    return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2


def report(name: str, function: Function, low: float, high: float, degree: int) -> None:
    """Print the coefficients and the largest relative error of the polynomial."""
    low, high = mp.mpf(low), mp.mpf(high)
    coefficients = interpolate(function, low, high, degree)
    places = [low + (high - low) * k / 500 for k in range(501)]
    error = max(abs(mp.polyval(coefficients[::-1], place) / function(place) - 1) for place in places)
    print(f"{name}, degree {degree}, relative error {mp.nstr(error, 2)}")
    print(",\n".join(mp.nstr(c, 17) for c in coefficients))


if __name__ == "__main__":
    mp.mp.dps = 60
    largest = {"float32": 13.4, "float64": 37.9}  # beyond these exp(-a²/2) is below the smallest normal number
    for dtype, degree in {"float32": 4, "float64": 10}.items():
        report(f"(2^f - 1) / f, {dtype}", power_quotient, -0.5, 0.5, degree)
    for dtype, degree in {"float32": 9, "float64": 22}.items():
        end = (largest[dtype] - MIDDLE) / (largest[dtype] + MIDDLE)
        report(f"scaled tail, {dtype}", scaled_tail, -1, end, degree)
