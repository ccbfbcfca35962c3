"""Oracle of the chunk sums of squares: exact sums, rounded once."""

import math

import numpy as np
from jaxtyping import Float64

from oracles.array import Array

CHUNK = 4096


def forward(*, g: Float64[Array, " n"]) -> dict[str, Array]:
    """sums[i] = sum of g^2 over elements [4096 i, 4096 i + 4096).

    The square of a float32 is exact in float64 and ``fsum`` rounds a sum once, so these are the
    correctly rounded sums. A NaN or an infinity passes through, as IEEE addition has it.
    """
    squares = g.reshape(-1) ** 2
    parts = [squares[i : i + CHUNK] for i in range(0, len(squares), CHUNK)]
    return {"sums": np.array([_sum(part) for part in parts], dtype=np.float64)}


def _sum(part: Array) -> float:
    return math.fsum(part.tolist()) if np.isfinite(part).all() else float(part.sum())
