"""Oracle of dropout: the mask follows from the element's place in the step's data alone."""

import numpy as np
from jaxtyping import Float64, Int32, UInt32

from oracles.array import Array, Index, Words
from oracles.philox import PURPOSES, words


def forward(
    *,
    x: Float64[Array, "T C"],
    token_index: Int32[Index, " T"],
    step: UInt32[Words, " 1"],
    seed: int,
    tensor: int,
    threshold: int,
    scale: float,
) -> dict[str, Array]:
    """y = scale x where the word of element token_index[t] C + c is at least ``threshold``.

    Padding gives 0.
    """
    return {
        "y": np.where(_kept(x.shape, token_index, step, seed, tensor, threshold), x * scale, 0.0)
    }


def backward(
    *,
    dy: Float64[Array, "T C"],
    token_index: Int32[Index, " T"],
    step: UInt32[Words, " 1"],
    seed: int,
    tensor: int,
    threshold: int,
    scale: float,
) -> dict[str, Array]:
    """The same map on dy."""
    return {
        "dx": np.where(_kept(dy.shape, token_index, step, seed, tensor, threshold), dy * scale, 0.0)
    }


def _kept(
    shape: tuple[int, ...], token_index: Index, step: Words, seed: int, tensor: int, threshold: int
) -> np.ndarray:
    tokens = token_index.astype(np.int64)[:, None]
    elements = np.maximum(tokens, 0) * shape[1] + np.arange(shape[1])
    drawn = words(
        elements, seed=seed, purpose=PURPOSES["dropout"], step=int(step[0]), tensor=tensor
    )
    return (drawn >= np.uint32(threshold)) & (tokens >= 0)
