"""Agreement of two arrays: bitwise equal, or within a bound.

No third word, and no default for either.

Order of judgement: shapes equal and not empty; bit classes; then bits (exact rows) or distance per
element (bounded rows). Norms and correlations decide nothing.

Distance is counted in steps. The step of an element is the largest of: one ulp of the wanted value
in the result's dtype; epsilon times the element's *magnitude*, the size of the terms that were
summed; the smallest subnormal. So a sum that cancels is judged by what rounding its terms can lose,
and everything else to the last digits.

Bit classes under a bound: NaN and an infinity of the oracle are classes to match, never wildcards.
An infinite result against a finite oracle counts as the first power of two beyond the dtype's
range, so that only rounding at the very edge passes. Zero and subnormal are no classes of their own
there (the floor rule): a value below the bound's reach may round to zero, a larger one may not,
which the distance shows; the sign of a zero is judged where bits are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """Outcome of one comparison.

    Attributes:
        holds: whether the arrays agree in the asked sense.
        reason: what broke first, with the element; empty when it holds.
        n: elements compared.
        worst: largest distance in steps; elements differing in bits, for an exact comparison.
    """

    holds: bool
    reason: str
    n: int
    worst: float


def bitwise_equal(got: NDArray[np.generic], want: NDArray[np.generic]) -> Verdict:
    """Equal shape, dtype and memory; only the payload of a NaN is free."""
    wrong = _shape_fault(got, want)
    if not wrong and got.dtype != want.dtype:
        wrong = f"dtype {got.dtype}, wanted {want.dtype}"
    if wrong:
        return Verdict(holds=False, reason=wrong, n=0, worst=float("inf"))
    word = np.dtype(f"u{got.dtype.itemsize}")
    differs = np.ascontiguousarray(got).view(word) != np.ascontiguousarray(want).view(word)
    if got.dtype.kind == "f":
        differs &= ~(np.isnan(got) & np.isnan(want))
    count = int(differs.sum())
    reason = (
        ""
        if count == 0
        else _first(differs, got, want, f"{count} of {got.size} elements differ in bits")
    )
    return Verdict(holds=count == 0, reason=reason, n=got.size, worst=float(count))


def within(
    got: NDArray[np.floating], want: Float, *, bound: float, magnitude: Float | None
) -> Verdict:
    """Every element within ``bound`` steps of the oracle.

    Args:
        got: result, float32 or float64; its dtype sets the step.
        want: oracle in float64, not rounded.
        bound: largest distance allowed, in steps; 0 means equal to the rounded oracle up to the
            sign of zero.
        magnitude: size of the terms of each element, or None where the value itself is the measure.
    """
    wrong = _shape_fault(got, want)
    if wrong:
        return Verdict(holds=False, reason=wrong, n=0, worst=float("inf"))
    if not bound >= 0:
        raise ValueError(f"a bound is a number of steps, 0 or more; got {bound}")
    steps = distances(got, want, magnitude=magnitude)
    bad = ~(steps <= bound)
    worst = float(steps.max())
    reason = (
        ""
        if not bad.any()
        else _first(
            bad,
            got,
            want,
            f"{int(bad.sum())} of {got.size} elements beyond {bound} steps, worst {worst:.4g}",
        )
    )
    return Verdict(holds=not reason, reason=reason, n=got.size, worst=worst)


def equal_values(got: NDArray[np.floating], want: Float) -> Verdict:
    """Bits equal to the oracle rounded to the result's dtype, the sign of zero apart.

    For inputs on a lattice.
    """
    with np.errstate(over="ignore", under="ignore"):
        rounded = want.astype(got.dtype)
    return bitwise_equal(got + got.dtype.type(0), rounded + got.dtype.type(0))


def distances(got: NDArray[np.floating], want: Float, *, magnitude: Float | None) -> Float:
    """Distance of each element in steps; infinite where the classes differ.

    An oracle value that is itself infinite or NaN has distance 0 from the same class and infinity
    from any other.
    """
    info = np.finfo(got.dtype)
    value = got.astype(np.float64)
    limit = float(info.max) if got.dtype == np.float64 else 2.0 ** int(info.maxexp)
    finite = np.isfinite(want)
    # Beyond the range: an infinity of the right sign is the correctly rounded result.
    with np.errstate(over="ignore", under="ignore"):
        overflow = finite & np.isinf(want.astype(got.dtype)) & (got == np.copysign(np.inf, want))
    value = np.where(finite & np.isinf(value), np.copysign(limit, value), value)
    step = _steps(np.where(finite, want, 0.0), info, magnitude)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(value - want) / step
    gap = np.where(overflow, 0.0, gap)
    same_class = np.where(np.isnan(want), np.isnan(got), got == want)
    gap = np.where(finite, gap, np.where(same_class, 0.0, np.inf))
    return np.where(np.isnan(gap), np.inf, gap)


def floors(want: Float, dtype: np.dtype, *, magnitude: Float | None) -> Float:
    """The step of each element.

    The part of a value that the comparison cannot see is ``bound`` times this.
    """
    return _steps(want, np.finfo(dtype), magnitude)


def _steps(want: Float, info: np.finfo, magnitude: Float | None) -> Float:
    size = np.minimum(np.abs(want), float(info.max))
    exponent = np.frexp(size)[1] - 1
    ulp = np.ldexp(1.0, np.maximum(exponent, int(info.minexp)) - int(info.nmant))
    if magnitude is None:
        return ulp
    if magnitude.shape != want.shape:
        raise ValueError(
            f"a magnitude has the shape of its value; got {magnitude.shape} for {want.shape}"
        )
    known = np.where(np.isfinite(magnitude), np.abs(magnitude), 0.0)
    return np.maximum(ulp, known * float(info.eps))


def _shape_fault(got: NDArray[np.generic], want: NDArray[np.generic]) -> str:
    if got.shape != want.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if got.size == 0:
        return f"nothing to compare: shape {got.shape} is empty"
    return ""


def _first(
    bad: NDArray[np.bool_], got: NDArray[np.generic], want: NDArray[np.generic], text: str
) -> str:
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{text}; first at {where}: got {got[where]!r}, wanted {want[where]!r}"
