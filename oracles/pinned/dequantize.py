"""Replay of dequantize: the decoded elements, which are float32 already."""

from oracles.array import Single


def forward(*, w: Single) -> dict[str, Single]:
    """A copy."""
    return {"y": w.copy()}
