"""Replay of fill."""

import numpy as np

from oracles.array import Single


def forward(*, y: Single, value: float) -> dict[str, Single]:
    """The value, rounded to float32 when it entered the argument struct."""
    return {"y": np.full_like(y, np.float32(value))}
