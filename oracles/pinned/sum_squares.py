"""Replay of sum_squares.

32 strided partial sums of a 4,096-element chunk in float64, then a tree 16, 8, 4, 2, 1.
"""

import numpy as np

from oracles.array import Array, Single

CHUNK = 4096
PARTIALS = 32


def forward(*, g: Single) -> dict[str, Array]:
    """Element j, j + 32, ... go to partial sum j in order."""
    flat = g.reshape(-1).astype(np.float64)
    return {
        "sums": np.array(
            [_chunk(flat[i : i + CHUNK]) for i in range(0, len(flat), CHUNK)], dtype=np.float64
        )
    }


def _chunk(values: Array) -> float:
    partial = np.zeros(PARTIALS)
    for i in range(0, len(values), PARTIALS):
        row = values[i : i + PARTIALS]
        partial[: len(row)] = partial[: len(row)] + row * row
    width = PARTIALS // 2
    while width:
        partial = partial[:width] + partial[width : 2 * width]
        width //= 2
    return float(partial[0])
