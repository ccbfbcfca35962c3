"""Oracle of the global norm and its clipping factor."""

import math

import numpy as np
from jaxtyping import Float64

from oracles.array import Array


def forward(*, sums: Float64[Array, " n"], max_norm: float) -> dict[str, Array]:
    """norm = sqrt(sum), scale = min(1, max_norm / max(norm, 1e-12)).

    max_norm <= 0 means no clipping.

    A NaN total gives a NaN scale, an infinite one a scale of 0: whoever steps looks at the norm
    first.
    """
    finite = bool(np.isfinite(sums).all())
    norm = math.sqrt(math.fsum(sums.tolist())) if finite else float(np.sqrt(sums.sum()))
    scale = 1.0 if max_norm <= 0 else max_norm / max(norm, 1e-12)
    return {
        "norm": np.array([norm]),
        "scale": np.array([scale if math.isnan(scale) else min(1.0, scale)]),
    }
