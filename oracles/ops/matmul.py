"""Oracle of matmul: y = alpha x w^T + c, and its two gradients."""

import numpy as np
from jaxtyping import Float64

from oracles.array import Array


def forward(
    *,
    x: Float64[Array, "T K"],
    w: Float64[Array, "N K"],
    c: Float64[Array, "T N"] | None = None,
    alpha: float = 1.0,
) -> dict[str, Array]:
    """y = alpha x w^T + c."""
    return {"y": _plus(alpha * (x @ w.T), c)}


def backward(
    *,
    dy: Float64[Array, "T N"],
    w: Float64[Array, "N K"],
    c: Float64[Array, "T K"] | None = None,
    alpha: float = 1.0,
) -> dict[str, Array]:
    """dx = alpha dy w + c."""
    return {"dx": _plus(alpha * (dy @ w), c)}


def backward_weight(
    *,
    dy: Float64[Array, "T N"],
    x: Float64[Array, "T K"],
    c: Float64[Array, "N K"] | None = None,
    alpha: float = 1.0,
) -> dict[str, Array]:
    """dw = alpha dy^T x + c."""
    return {"dw": _plus(alpha * (dy.T @ x), c)}


def forward_magnitude(
    *, x: Array, w: Array, c: Array | None = None, alpha: float = 1.0
) -> dict[str, Array]:
    """|alpha| |x| |w|^T + |c|."""
    return forward(x=np.abs(x), w=np.abs(w), c=_abs(c), alpha=abs(alpha))


def backward_magnitude(
    *, dy: Array, w: Array, c: Array | None = None, alpha: float = 1.0
) -> dict[str, Array]:
    """|alpha| |dy| |w| + |c|."""
    return backward(dy=np.abs(dy), w=np.abs(w), c=_abs(c), alpha=abs(alpha))


def backward_weight_magnitude(
    *, dy: Array, x: Array, c: Array | None = None, alpha: float = 1.0
) -> dict[str, Array]:
    """|alpha| |dy|^T |x| + |c|."""
    return backward_weight(dy=np.abs(dy), x=np.abs(x), c=_abs(c), alpha=abs(alpha))


def _plus(product: Array, c: Array | None) -> Array:
    return product if c is None else product + c


def _abs(c: Array | None) -> Array | None:
    return None if c is None else np.abs(c)
