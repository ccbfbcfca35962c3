"""Replay of rope: two products and one sum, each rounded: a cos - b sin, b cos + a sin."""

from oracles.array import Index, Single
from oracles.ops.rope import pairs


def forward(
    *, x: Single, positions: Index, cos: Single, sin: Single, head_size: int, n_rot: int, neox: int
) -> dict[str, Single]:
    """Elements of a head from n_rot on are copied."""
    return {"y": _rotate(x, cos[positions], sin[positions], head_size, n_rot, neox)}


def backward(
    *, dy: Single, positions: Index, cos: Single, sin: Single, head_size: int, n_rot: int, neox: int
) -> dict[str, Single]:
    """The same operations with -sin."""
    return {"dx": _rotate(dy, cos[positions], -sin[positions], head_size, n_rot, neox)}


def _rotate(x: Single, cos: Single, sin: Single, head_size: int, n_rot: int, neox: int) -> Single:
    first, second = pairs(head_size, n_rot, neox)
    y = x.reshape(len(x), x.shape[1] // head_size, head_size).copy()
    a, b = y[..., first].copy(), y[..., second].copy()
    c, s = cos[:, None, :], sin[:, None, :]
    y[..., first] = a * c - b * s
    y[..., second] = b * c + a * s
    return y.reshape(x.shape)
