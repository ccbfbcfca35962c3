"""Replay of dropout: one product where the element is kept, +0 elsewhere."""

import numpy as np

from oracles.array import Array, Index, Single, Words
from oracles.ops import dropout


def forward(
    *,
    x: Single,
    token_index: Index,
    step: Words,
    seed: int,
    tensor: int,
    threshold: int,
    scale: float,
) -> dict[str, Single]:
    """The float64 product of two float32 values is exact, so its one rounding is the product's."""
    y = dropout.forward(
        x=x.astype(np.float64),
        token_index=token_index,
        step=step,
        seed=seed,
        tensor=tensor,
        threshold=threshold,
        scale=float(np.float32(scale)),
    )["y"]
    return {"y": _rounded(y)}


def backward(
    *,
    dy: Single,
    token_index: Index,
    step: Words,
    seed: int,
    tensor: int,
    threshold: int,
    scale: float,
) -> dict[str, Single]:
    """As forward, on dy."""
    y = forward(
        x=dy,
        token_index=token_index,
        step=step,
        seed=seed,
        tensor=tensor,
        threshold=threshold,
        scale=scale,
    )["y"]
    return {"dx": y}


def _rounded(y: Array) -> Single:
    with np.errstate(over="ignore", under="ignore"):
        return y.astype(np.float32)
