"""Replay of bias.

Db sums blocks of 64 rows in row order from 0, then c (or 0) plus the blocks in order.
"""

import numpy as np

from oracles.array import Single

BLOCK_ROWS = 64


def forward(*, x: Single, b: Single) -> dict[str, Single]:
    """One addition."""
    return {"y": x + b}


def backward_weight(*, dy: Single, c: Single | None = None) -> dict[str, Single]:
    """Row by row inside a block, block by block on top of ``c``."""
    total = np.zeros(dy.shape[1], dtype=np.float32) if c is None else c.copy()
    for start in range(0, len(dy), BLOCK_ROWS):
        part = np.zeros(dy.shape[1], dtype=np.float32)
        for row in dy[start : start + BLOCK_ROWS]:
            part = part + row
        total = total + part
    return {"db": total}
