"""Oracle of bias: y[t,c] = x[t,c] + b[c]."""

import numpy as np
from jaxtyping import Float64

from oracles.array import Array


def forward(*, x: Float64[Array, "T C"], b: Float64[Array, " C"]) -> dict[str, Array]:
    """Adds b to every row."""
    return {"y": x + b}


def backward_weight(
    *, dy: Float64[Array, "T C"], c: Float64[Array, " C"] | None = None
) -> dict[str, Array]:
    """db[c] = sum over t of dy[t,c], on top of ``c``."""
    db = dy.sum(axis=0)
    return {"db": db if c is None else c + db}


def backward_weight_magnitude(
    *, dy: Float64[Array, "T C"], c: Float64[Array, " C"] | None = None
) -> dict[str, Array]:
    """Sum of the sizes of the terms."""
    return backward_weight(dy=np.abs(dy), c=None if c is None else np.abs(c))
