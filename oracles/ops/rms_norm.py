"""Oracle of RMS norm (arXiv:1910.07467).

y = x w r, r = 1/sqrt(mean x^2 + eps) over the last axis.
"""

import numpy as np
from jaxtyping import Float64

from oracles.array import UNDERFLOW, Array


def forward(*, x: Float64[Array, "T C"], w: Float64[Array, " C"], eps: float) -> dict[str, Array]:
    """y (T, C) and r (T), which is saved for backward.

    Squares of float32 values never overflow in float64.
    """
    r = 1.0 / np.sqrt(np.mean(x * x, axis=1) + eps)
    return {"y": x * r[:, None] * w, "r": r}


def forward_magnitude(*, x: Array, w: Array, eps: float) -> dict[str, Array]:
    """x r may underflow before w brings it back."""
    y = forward(x=x, w=w, eps=eps)["y"]
    return {"y": np.abs(y) + np.abs(w) * UNDERFLOW, "r": np.zeros(len(x))}


def backward(
    *,
    dy: Float64[Array, "T C"],
    x: Float64[Array, "T C"],
    w: Float64[Array, " C"],
    r: Float64[Array, " T"],
    c: Float64[Array, "T C"] | None = None,
) -> dict[str, Array]:
    """dx = r (w dy) - x (r^3 / C) sum(w dy x) + c."""
    projection = np.sum(w * dy * x, axis=1) * r**3 / x.shape[1]
    dx = r[:, None] * (w * dy) - x * projection[:, None]
    return {"dx": dx if c is None else dx + c}


def backward_magnitude(
    *, dy: Array, x: Array, w: Array, r: Array, c: Array | None = None
) -> dict[str, Array]:
    """Both terms by their sizes, the projection by the sizes of its summands.

    Each product may underflow.
    """
    summands = np.abs(w * dy * x) + UNDERFLOW * (1.0 + np.abs(x))
    projection = np.sum(summands, axis=1) * np.abs(r) ** 3 / x.shape[1] + UNDERFLOW
    dx = np.abs(r)[:, None] * (np.abs(w * dy) + UNDERFLOW) + np.abs(x) * projection[:, None]
    return {"dx": dx if c is None else dx + np.abs(c)}


def backward_weight(
    *,
    dy: Float64[Array, "T C"],
    x: Float64[Array, "T C"],
    r: Float64[Array, " T"],
    c: Float64[Array, " C"] | None = None,
) -> dict[str, Array]:
    """dw = sum over t of dy x r, plus c."""
    dw = np.sum(dy * x * r[:, None], axis=0)
    return {"dw": dw if c is None else dw + c}


def backward_weight_magnitude(
    *, dy: Array, x: Array, r: Array, c: Array | None = None
) -> dict[str, Array]:
    """Sum of the sizes of the terms."""
    lost = len(r) * UNDERFLOW * (1.0 + np.abs(r).max(initial=0.0))
    dw = backward_weight(
        dy=np.abs(dy), x=np.abs(x), r=np.abs(r), c=None if c is None else np.abs(c)
    )["dw"]
    return {"dw": dw + lost}
