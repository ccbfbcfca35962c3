"""Oracle of rotary embedding (arXiv:2104.09864); ``oracles.rope_tables`` has the tables."""

import numpy as np
from jaxtyping import Float64, Int32

from oracles.array import Array, Index


def forward(
    *,
    x: Float64[Array, "T C"],
    positions: Int32[Index, " T"],
    cos: Float64[Array, "P half"],
    sin: Float64[Array, "P half"],
    head_size: int,
    n_rot: int,
    neox: int,
) -> dict[str, Array]:
    """Each pair as a complex number, times cos + i sin of its token's position."""
    return {"y": _rotate(x, cos[positions] + 1j * sin[positions], head_size, n_rot, neox)}


def backward(
    *,
    dy: Float64[Array, "T C"],
    positions: Int32[Index, " T"],
    cos: Float64[Array, "P half"],
    sin: Float64[Array, "P half"],
    head_size: int,
    n_rot: int,
    neox: int,
) -> dict[str, Array]:
    """The transpose of a rotation is the rotation by the negative angle."""
    return {"dx": _rotate(dy, cos[positions] - 1j * sin[positions], head_size, n_rot, neox)}


def forward_magnitude(
    *, x: Array, positions: Index, cos: Array, sin: Array, head_size: int, n_rot: int, neox: int
) -> dict[str, Array]:
    """|a cos| + |b sin| and |a sin| + |b cos|."""
    return {"y": _sizes(x, positions, cos, sin, head_size, n_rot, neox)}


def backward_magnitude(
    *, dy: Array, positions: Index, cos: Array, sin: Array, head_size: int, n_rot: int, neox: int
) -> dict[str, Array]:
    """As forward."""
    return {"dx": _sizes(dy, positions, cos, sin, head_size, n_rot, neox)}


def pairs(head_size: int, n_rot: int, neox: int) -> tuple[Index, Index]:
    """Element numbers inside a head of the first and second member of each pair."""
    if n_rot > head_size or n_rot % 2:
        raise ValueError(f"n_rot must be even and at most head_size; got {n_rot} of {head_size}")
    first = np.arange(n_rot // 2, dtype=np.int32)
    return (first, first + np.int32(n_rot // 2)) if neox else (2 * first, 2 * first + 1)


def _rotate(x: Array, turn: np.ndarray, head_size: int, n_rot: int, neox: int) -> Array:
    first, second = pairs(head_size, n_rot, neox)
    y = x.reshape(len(x), x.shape[1] // head_size, head_size).copy()
    turned = (y[..., first] + 1j * y[..., second]) * turn[:, None, :]
    y[..., first], y[..., second] = turned.real, turned.imag
    return y.reshape(x.shape)


def _sizes(
    x: Array, positions: Index, cos: Array, sin: Array, head_size: int, n_rot: int, neox: int
) -> Array:
    first, second = pairs(head_size, n_rot, neox)
    y = np.abs(x).reshape(len(x), x.shape[1] // head_size, head_size)
    a, b = y[..., first].copy(), y[..., second].copy()
    c, s = np.abs(cos[positions])[:, None, :], np.abs(sin[positions])[:, None, :]
    y[..., first], y[..., second] = a * c + b * s, a * s + b * c
    return y.reshape(x.shape)
