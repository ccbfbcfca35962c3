"""Oracle of exp: y = e^x. Over float32 inputs a float64 exponential is true to 1e-16 relative."""

import numpy as np
from jaxtyping import Float64

from oracles.array import Array


def forward(*, x: Float64[Array, " n"]) -> dict[str, Array]:
    """exp(-inf) = 0, exp(inf) = inf, exp(NaN) = NaN.

    A result beyond float64 is infinite in float32 as well.
    """
    with np.errstate(over="ignore", under="ignore"):
        return {"y": np.exp(x)}
