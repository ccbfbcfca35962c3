"""Oracle of AdamW with decoupled decay (arXiv:1711.05101), the bias-corrected form.

``settings`` holds lr, b1, b2, c1, c2, k1, k2, eps, w as the host rounded them; ``clip`` one factor
s.
"""

import numpy as np
from jaxtyping import Float64

from oracles.array import UNDERFLOW, Array


def step(
    *,
    g: Float64[Array, " n"],
    settings: Float64[Array, " 9"],
    clip: Float64[Array, " 1"],
    x: Float64[Array, " n"],
    m: Float64[Array, " n"],
    v: Float64[Array, " n"],
) -> dict[str, Array]:
    """m = b1 m + c1 s g;  v = b2 v + c2 (s g)^2;  x = w x - lr (m / k1) / (sqrt(v / k2) + eps)."""
    lr, b1, b2, c1, c2, k1, k2, eps, w = settings
    g = clip[0] * g
    m = b1 * m + c1 * g
    v = b2 * v + c2 * g * g
    return {"x": w * x - lr * (m / k1) / (np.sqrt(v / k2) + eps), "m": m, "v": v}


def step_magnitude(
    *, g: Array, settings: Array, clip: Array, x: Array, m: Array, v: Array
) -> dict[str, Array]:
    """The first moment by the sizes of its two terms, which the update inherits."""
    lr, b1, _, c1, _, k1, k2, eps, w = settings
    after = step(g=g, settings=settings, clip=clip, x=x, m=m, v=v)["v"]
    size = np.abs(b1 * m) + np.abs(c1 * clip[0] * g)
    update = lr * ((size + UNDERFLOW) / k1) / (np.sqrt(after / k2) + eps)
    return {"x": np.abs(w * x) + update, "m": size, "v": after + UNDERFLOW * np.abs(clip[0] * g)}
