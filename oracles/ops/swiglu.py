"""Oracle of SwiGLU (arXiv:2002.05202): y = silu(g) u, silu(g) = g s(g), s the logistic function."""

import numpy as np
from jaxtyping import Float64

from oracles.array import UNDERFLOW, Array


def logistic(x: Array) -> Array:
    """1/(1 + e^-x), from e^-|x| so that neither side overflows or cancels."""
    with np.errstate(under="ignore"):
        z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, z) / (1.0 + z)


def forward(*, g: Float64[Array, " n"], u: Float64[Array, " n"]) -> dict[str, Array]:
    """y = g s(g) u; silu(-inf) = -0 (the limit)."""
    return {"y": _silu(g) * u}


def forward_magnitude(*, g: Float64[Array, " n"], u: Float64[Array, " n"]) -> dict[str, Array]:
    """silu(g) may underflow before u brings it back."""
    return {"y": np.abs(u) * UNDERFLOW + np.abs(forward(g=g, u=u)["y"])}


def backward(
    *, dy: Float64[Array, " n"], g: Float64[Array, " n"], u: Float64[Array, " n"]
) -> dict[str, Array]:
    """du = dy silu(g).

    dg = dy u s(g) (1 + g s(-g)), with s(-g) for 1 - s(g) so that nothing cancels.
    """
    slope = logistic(g) * (1.0 + _times_tail(g))
    return {"dg": dy * u * slope, "du": dy * _silu(g)}


def backward_magnitude(
    *, dy: Float64[Array, " n"], g: Float64[Array, " n"], u: Float64[Array, " n"]
) -> dict[str, Array]:
    """The two terms of the slope have opposite signs below zero.

    Intermediate products may underflow.
    """
    slope = logistic(g) * (1.0 + np.abs(_times_tail(g)))
    lost = UNDERFLOW * (1.0 + np.abs(dy) + np.abs(u) + np.abs(dy * u))
    return {"dg": np.abs(dy * u) * slope + lost, "du": np.abs(dy) * (np.abs(_silu(g)) + UNDERFLOW)}


def _silu(g: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(g), -0.0, g * logistic(g))


def _times_tail(g: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(np.isposinf(g), 0.0, g * logistic(-g))
