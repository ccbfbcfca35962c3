"""Replay of AdamW in the written order: g = s g; m = b1 m + c1 g; v = b2 v + (c2 g) g.

x = x w - lr (...).
"""

import numpy as np

from oracles.array import Single


def step(
    *, g: Single, settings: Single, clip: Single, x: Single, m: Single, v: Single
) -> dict[str, Single]:
    """x = x w - lr ((m / k1) / (sqrt(v / k2) + eps))."""
    lr, b1, b2, c1, c2, k1, k2, eps, w = settings
    g = clip[0] * g
    m = b1 * m + c1 * g
    v = b2 * v + (c2 * g) * g
    x = x * w - lr * ((m / k1) / (np.sqrt(v / k2) + eps))
    return {"x": x, "m": m, "v": v}
