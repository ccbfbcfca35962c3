"""Replay of SwiGLU: y = silu(g) u;  dg = (dy u) silu'(g);  du = dy silu(g)."""

from oracles.array import Single
from oracles.pinned.elementary import silu


def forward(*, g: Single, u: Single) -> dict[str, Single]:
    """One product after the pinned SiLU."""
    return {"y": silu(g)[0] * u}


def backward(*, dy: Single, g: Single, u: Single) -> dict[str, Single]:
    """The cotangent meets u first, then the slope."""
    value, slope = silu(g)
    return {"dg": dy * u * slope, "du": dy * value}
