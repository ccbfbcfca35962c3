"""Oracle of SGD with decoupled decay and optional (Nesterov) momentum.

``settings`` holds lr, mu, w; ``clip`` s.
"""

import numpy as np
from jaxtyping import Float64

from oracles.array import Array


def step(
    *,
    g: Float64[Array, " n"],
    settings: Float64[Array, " 3"],
    clip: Float64[Array, " 1"],
    x: Float64[Array, " n"],
    buf: Float64[Array, " n"] | None = None,
    nesterov: int = 0,
) -> dict[str, Array]:
    """buf = mu buf + s g;  u = s g + mu buf under Nesterov, else buf, else s g;  x = w x - lr u."""
    lr, mu, w = settings
    g = clip[0] * g
    if buf is None:
        return {"x": w * x - lr * g}
    after: Array = mu * buf + g
    return {"x": w * x - lr * (g + mu * after if nesterov else after), "buf": after}


def step_magnitude(
    *, g: Array, settings: Array, clip: Array, x: Array, buf: Array | None = None, nesterov: int = 0
) -> dict[str, Array]:
    """Every term by its size."""
    signs = np.array([-1.0, 1.0, 1.0])  # turns x w - lr u into a sum of sizes
    old = None if buf is None else np.abs(buf)
    return step(
        g=np.abs(g),
        settings=np.abs(settings) * signs,
        clip=np.abs(clip),
        x=np.abs(x),
        buf=old,
        nesterov=nesterov,
    )
