"""exp, log and SiLU of pinned rows.

Polynomials in plain float32 multiply and add, and 32-bit integer operations.

The coefficients define these functions; every backend replays the operations below. numpy float32
arrays round each operation once. Results are computed for all lanes and selected on bit patterns,
as on a device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.array import Single

Bits = NDArray[np.int32]
# All float32 at run time; the type stubs widen sums of float32 arrays.
Floats = NDArray[np.floating]

_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_QUIET = 0x00400000
_REACH = 0x42DC0000  # 110: beyond it exp overflows and silu rounds to zero
_ONE = np.float32(1)


def _hex(text: str) -> np.float32:
    return np.float32(float.fromhex(text))


_LN2_HIGH, _LN2_LOW = _hex("0x1.62e4p-1"), _hex("0x1.7f7d1cp-20")
_LOG2_E, _ROUND = _hex("0x1.715476p+0"), _hex("0x1.8p23")
_EXP = [
    _hex(h)
    for h in (
        "0x1.9e1b5ap-13",
        "0x1.6d4f3cp-10",
        "0x1.1113p-7",
        "0x1.5554e6p-5",
        "0x1.555554p-3",
        "0x1p-1",
    )
]
_LOG = [
    _hex(h)
    for h in (
        "-0x1.e2d518p-5",
        "0x1.afefd2p-4",
        "-0x1.bb0c06p-4",
        "0x1.c4d882p-4",
        "-0x1.fd071p-4",
        "0x1.248676p-3",
        "-0x1.556256p-3",
        "0x1.999a6ap-3",
        "-0x1.ffffdcp-3",
        "0x1.555554p-2",
    )
]


@dataclass(frozen=True)
class ExpParts:
    """e^x = significand first second, both factors powers of two."""

    significand: Floats
    first: Floats
    second: Floats


def exp(x: Floats) -> Single:
    """e^x."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        e = _exp_parts(_float(_reach(x) | (_bits(x) & ~_MAGNITUDE)))
        return _or_nan(e.significand * e.first * e.second, x)


def silu(x: Floats) -> tuple[Single, Single]:
    """x s(x) and its derivative, from a = min(|x|, 110), z = e^-a, r = 1/(1 + z).

    The power of two of z last.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        negative = _bits(x) < 0
        a = _float(_reach(x))
        e = _exp_parts(-a)
        front = e.significand * e.first
        z = front * e.second
        r = _ONE / (_ONE + z)
        last = np.where(negative, e.second, _ONE)
        value = np.where(negative, -a * front, x) * r * last
        inner = np.where(negative, -(a * r), a * (z * r))
        slope = np.where(negative, front * r, r) * (_ONE + inner) * last
        return _or_nan(value, x), _or_nan(slope, x)


def log(x: Floats) -> Single:
    """ln x, x = 2^k (1 + f).

    Found as k ln 2 + f - f^2/2 + f^3 Q(f) with the rests of the leading sums carried along.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bits = _bits(x)
        tiny = bits < 0x00800000
        normal = np.where(tiny, _bits(bits.astype(np.float32)), bits).astype(np.uint32)
        offset = normal - np.uint32(0x3F3504F3)
        k = (offset.view(np.int32) >> 23) + np.where(tiny, -149, 0).astype(np.int32)
        f = _float(((offset & np.uint32(0x007FFFFF)) + np.uint32(0x3F3504F3)).view(np.int32)) - _ONE
        half = np.float32(0.5)
        h = _float(_bits(f) & ~0xFFF)
        square_high = half * (h * h)
        square_low = half * ((f - h) * (f + h))
        a = f - square_high
        a_rest = (f - a) - square_high
        count = k.astype(np.float32)
        whole = count * _LN2_HIGH
        total = whole + a
        total_rest = (whole - total) + a
        f2 = f * f
        f4 = f2 * f2
        q9, q7, q5, q3, q1 = _pairs(_LOG, f)
        q = (q9 * f4 + (q7 * f2 + q5)) * f4 + (q3 * f2 + q1)
        cubic = f2 * f * q
        tail = (cubic - square_low) + count * _LN2_LOW
        out = _bits(total + (total_rest + (a_rest + tail)))
        out = np.where(bits == _INFINITY, _INFINITY, out)
        out = np.where(bits < 0, _INFINITY | _QUIET, out)
        out = np.where((bits & _MAGNITUDE) == 0, np.int32(-0x00800000), out).astype(np.int32)
        return _or_nan(_float(out), x)


def _exp_parts(x: Floats) -> ExpParts:
    shifted = x * _LOG2_E + _ROUND
    k = _bits(shifted) - np.float32(_ROUND).view(np.int32)
    whole = shifted - _ROUND
    high = x - whole * _LN2_HIGH
    low = whole * _LN2_LOW
    r = high - low
    c = (high - r) - low
    total = r + _ONE
    rest = r - (total - _ONE)
    r2 = r * r
    p5, p3, p1 = _pairs(_EXP, r)
    significand = total + (rest + (c + r2 * ((p5 * r2 + p3) * r2 + p1)))
    half = k >> 1
    return ExpParts(significand, _float((half + 127) << 23), _float((k - half + 127) << 23))


def _pairs(coefficients: Sequence[np.float32], x: Floats) -> list[Floats]:
    """First-degree pieces a x + b of a polynomial, highest first."""
    pairs = zip(coefficients[::2], coefficients[1::2], strict=True)
    return [x * a + b for a, b in pairs]


def _bits(x: Floats) -> Bits:
    return np.ascontiguousarray(x, dtype=np.float32).view(np.int32)


def _float(bits: Bits) -> Single:
    return np.ascontiguousarray(bits, dtype=np.int32).view(np.float32)


def _reach(x: Floats) -> Bits:
    return np.minimum(_bits(x) & _MAGNITUDE, _REACH).astype(np.int32)


def _or_nan(value: Floats, x: Floats) -> Single:
    return np.where(np.isnan(x), np.float32(np.nan), value).astype(np.float32)
