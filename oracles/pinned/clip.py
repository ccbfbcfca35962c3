"""Replay of clip.

Neighbours added pairwise in float64, an odd last one passing up, until one is left.
"""

import numpy as np

from oracles.array import Array


def forward(*, sums: Array, max_norm: float) -> dict[str, np.ndarray]:
    """norm in float64; scale rounded once to float32."""
    level = sums
    while len(level) > 1:
        pairs = len(level) // 2
        level = np.concatenate(
            [level[0 : 2 * pairs : 2] + level[1 : 2 * pairs : 2], level[2 * pairs :]]
        )
    norm = np.sqrt(level[0]) if len(level) else np.float64(0)
    if max_norm <= 0:
        scale = np.float64(1)
    elif np.isnan(norm):
        scale = norm
    else:
        scale = min(np.float64(1), np.float64(max_norm) / max(norm, np.float64(1e-12)))
    return {"norm": np.array([norm]), "scale": np.array([scale]).astype(np.float32)}
