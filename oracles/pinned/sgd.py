"""Replay of SGD in the written order: g = s g; buf = mu buf + g; u = g + mu buf or buf.

x = x w - lr u.
"""

from oracles.array import Single


def step(
    *,
    g: Single,
    settings: Single,
    clip: Single,
    x: Single,
    buf: Single | None = None,
    nesterov: int = 0,
) -> dict[str, Single]:
    """Without a buffer u is g."""
    lr, mu, w = settings
    g = clip[0] * g
    if buf is None:
        return {"x": x * w - lr * g}
    after: Single = mu * buf + g
    u = g + mu * after if nesterov else after
    return {"x": x * w - lr * u, "buf": after}
