"""Replay of SGD in the written order: g = s g; buf = mu buf + g; u = g + mu buf or buf; x = x w - lr u."""

from oracles.array import Single


def step(
    *, g: Single, settings: Single, clip: Single, x: Single, buf: Single | None = None, nesterov: int = 0
) -> dict[str, Single]:
    """Without a buffer u is g."""
    lr, mu, w = settings
    g = clip[0] * g
    if buf is None:
        return {"x": x * w - lr * g}
    buf = mu * buf + g
    u = g + mu * buf if nesterov else buf
    return {"x": x * w - lr * u, "buf": buf}
