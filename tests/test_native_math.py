"""Accuracy of the project's own exp, log, logistic and SiLU over all of float32.

The `fast` plan takes every 1,021st of the 2^32 bit patterns, the full plan all of them.
Judge: numpy's float64 functions, which mpmath confirms here to be right to far better than a
float32 step. Errors are in ulp of the exact value: the spacing of float32 there, 2^-149 among the
subnormals.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from retrograd.backends import Device, open_device
from retrograd.runtime.launch import launch

Single = NDArray[np.float32]
Double = NDArray[np.float64]
SEGMENTS = 16
SAMPLE_STRIDE = 1021
BATCH = 1 << 21


@cache
def device(*, faults: bool = False) -> Device:
    return open_device(threads=1, faults=faults)


def _exp(x: Single) -> Single:
    y = np.empty_like(x)
    launch(device(), "exp.forward.f32.cpu", x=x, y=y, n=x.size)
    return y


def _log(x: Single) -> Single:
    y = np.empty_like(x)
    launch(device(), "log.forward.f32.cpu", x=x, y=y, n=x.size)
    return y


def _silu(x: Single) -> Single:
    y = np.empty_like(x)
    launch(device(), "swiglu.forward.f32.cpu", g=x, u=np.ones_like(x), y=y, n=x.size)
    return y


def _logistic(x: Single) -> Single:
    """The planted fault of swiglu's backward pass leaves dy u s(g) in dg."""
    row, faulty = "swiglu.backward.f32.cpu", device(faults=True)
    one, y, du = np.ones_like(x), np.empty_like(x), np.empty_like(x)
    faulty.set_fault(row + ":drop_slope_term")
    launch(faulty, row, dy=one, g=x, u=one, dg=y, du=du, n=x.size)
    faulty.set_fault(None)
    return y


def _exact_logistic(x: Double) -> Double:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1.0) / (1.0 + z)


def _exact_silu(x: Double) -> Double:
    # The limit at -inf, which the product cannot give.
    return np.where(np.isneginf(x), -0.0, x * _exact_logistic(x))


@dataclass(frozen=True)
class Function:
    """A function of the header and its judge.

    Attributes:
        below_ulp: the error that every result stays under. exp and log: one ulp by design, half of
            it the last rounding. logistic and SiLU: exp, and four more roundings that can each
            cost an ulp of the result at most.
    """

    native: Callable[[Single], Single]
    exact: Callable[[Double], Double]
    by_mpmath: Callable[[mpmath.mpf], mpmath.mpf]
    below_ulp: float


FUNCTIONS = {
    "exp": Function(_exp, np.exp, mpmath.exp, 1.0),
    "log": Function(_log, np.log, mpmath.log, 1.0),
    "logistic": Function(_logistic, _exact_logistic, lambda x: 1 / (1 + mpmath.exp(-x)), 4.0),
    "silu": Function(_silu, _exact_silu, lambda x: x / (1 + mpmath.exp(-x)), 4.0),
}


def _ulp(exact: Double) -> Double:
    return np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))


def _judge(function: Function, patterns: NDArray[np.uint32]) -> tuple[float, float]:
    """Worst error in ulp, and where; classes and signs must be right everywhere."""
    x = patterns.view(np.float32)
    y = function.native(x)
    with np.errstate(all="ignore"):
        exact = function.exact(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    other = (y.view(np.uint32) != rounded.view(np.uint32)) & ~(np.isnan(y) & np.isnan(rounded))
    if not other.any():
        # Every result is the nearest one.
        return 0.5, float("nan")
    x, y, exact, rounded = x[other], y[other], exact[other], rounded[other]
    assert np.isfinite(exact).all(), x[~np.isfinite(exact)][:4]
    flipped = np.signbit(y) != np.signbit(rounded)
    assert not flipped.any(), x[flipped][:4]
    # At the edge of the range an infinity counts as the power of two that it rounds from.
    value = np.where(np.isinf(y), np.copysign(np.float64(2.0**128), y), y.astype(np.float64))
    error = np.abs(value - exact) / _ulp(exact)
    worst = int(np.argmax(error))
    return float(error[worst]), float(x[worst])


@pytest.mark.parametrize("segment", range(SEGMENTS))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_stays_below_the_bound(
    name: str, segment: int, plan: str, request: pytest.FixtureRequest
) -> None:
    stride = 1 if plan == "full" else SAMPLE_STRIDE
    size = (1 << 32) // SEGMENTS
    worst = (0.0, float("nan"))
    for start in range(segment * size, (segment + 1) * size, BATCH * stride):
        end = min(start + BATCH * stride, (segment + 1) * size)
        patterns = np.arange(start, end, stride, dtype=np.uint64).astype(np.uint32)
        worst = max(worst, _judge(FUNCTIONS[name], patterns))
    # Shown by a junit report: the figures that the log quotes.
    request.node.user_properties.append((f"{name} worst ulp and where", worst))
    assert worst[0] < FUNCTIONS[name].below_ulp, worst


@pytest.mark.parametrize("name", FUNCTIONS)
def test_mpmath_confirms_the_judge(name: str) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(11)
    near = rng.uniform(-110, 89, 300).astype(np.float32)
    x = np.abs(near) if name == "log" else near
    if name == "log":
        bits = rng.integers(1, 0x7F800000, 300, dtype=np.uint32)
        close_to_1 = rng.uniform(0.999, 1.001, 99).astype(np.float32)
        x = np.concatenate([x, bits.view(np.float32), close_to_1])
    exact = function.exact(x.astype(np.float64))
    with mpmath.workdps(40):
        for value, judged in zip(x.tolist(), exact.tolist(), strict=True):
            truth = function.by_mpmath(mpmath.mpf(value))
            assert abs(truth - judged) <= abs(truth) * 2.0**-48, value


INFINITY, NAN = float("inf"), float("nan")
SMALLEST, LARGEST = 2.0**-149, float(np.finfo(np.float32).max)
SPECIAL = [
    ("exp", 0.0, 1.0),
    ("exp", -0.0, 1.0),
    ("exp", SMALLEST, 1.0),
    ("exp", -SMALLEST, 1.0),
    ("exp", INFINITY, INFINITY),
    ("exp", -INFINITY, 0.0),
    ("exp", LARGEST, INFINITY),
    ("exp", -LARGEST, 0.0),
    ("exp", 89.0, INFINITY),
    # ln 2^-150 = -103.97: half the smallest subnormal, on either side.
    ("exp", -103.9, SMALLEST),
    ("exp", -104.0, 0.0),
    ("log", 1.0, 0.0),
    ("log", 0.0, -INFINITY),
    ("log", -0.0, -INFINITY),
    ("log", INFINITY, INFINITY),
    ("log", -INFINITY, NAN),
    ("log", -1.0, NAN),
    ("log", -SMALLEST, NAN),
    ("log", SMALLEST, float(np.float32(-149 * np.log(2.0)))),
    ("logistic", 0.0, 0.5),
    ("logistic", INFINITY, 1.0),
    ("logistic", -INFINITY, 0.0),
    ("silu", 0.0, 0.0),
    ("silu", -0.0, -0.0),
    ("silu", INFINITY, INFINITY),
    ("silu", -INFINITY, -0.0),
    ("silu", LARGEST, LARGEST),
    ("silu", -LARGEST, -0.0),
    # 104 e^-104 is 50.57 times the smallest subnormal, e^-104 alone less than half of it.
    ("silu", -104.0, -51 * SMALLEST),
]


@pytest.mark.parametrize(("name", "x", "expected"), SPECIAL)
def test_special_values(name: str, x: float, expected: float) -> None:
    got = FUNCTIONS[name].native(np.full(9, x, np.float32))
    want = np.full(9, expected, np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    if expected == expected:
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_nan_gives_a_quiet_nan(name: str) -> None:
    patterns = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC01234], np.uint32)
    got = FUNCTIONS[name].native(patterns.view(np.float32)).view(np.uint32)
    assert (got & 0x7FC00000 == 0x7FC00000).all()


def test_the_slope_of_silu_is_finite_and_accurate_relative_to_its_terms() -> None:
    x = np.concatenate([np.linspace(-120, 120, 20_001), [-3e38, 3e38]]).astype(np.float32)
    one, slope, value = np.ones_like(x), np.empty_like(x), np.empty_like(x)
    launch(device(), "swiglu.backward.f32.cpu", dy=one, g=x, u=one, dg=slope, du=value, n=x.size)
    wide = x.astype(np.float64)
    s = _exact_logistic(wide)
    part = np.where(np.abs(wide) < 200, wide, 0.0) * _exact_logistic(-wide)
    exact = s * (1.0 + part)
    # The sum 1 + x (1 - s) cancels near x = -1.28, so an error is measured on its larger term.
    scale = s * np.maximum(1.0, np.abs(part))
    error = np.abs(slope - exact) / _ulp(scale)
    assert np.isfinite(slope).all()
    assert float(error.max()) < 5.0
    assert value.tobytes() == _silu(x).tobytes()
