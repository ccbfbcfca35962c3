"""Cases of clip."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case
from lanes.corpora import Draw

LADDER = (-300, 300)
SIZES = {"forward": [{"n": n} for n in (0, 1, 2, 3, 5, 6, 7, 31, 64, 97, 1025)]}
_MAX_NORM = {"lattice": 1.0, "ladder": 1e-3, "structured": 0.0, "gaussian": 1e6}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Sums far apart in size, so that the order of a float64 sum shows."""
    n = dims["n"]
    if draw.corpus == "ladder":
        sums = 2.0 ** draw.rng.uniform(-60, 60, n)
    elif draw.corpus == "lattice":
        sums = draw.rng.integers(0, 9, n).astype(np.float64)
    else:
        sums = draw.rng.random(n) * 10.0 ** draw.rng.integers(-3, 3, n)
    outputs = {"norm": ((1,), "f64"), "scale": ((1,), "f32")}
    return Case(
        name, draw.corpus, {"sums": sums}, outputs, dims, {"max_norm": _MAX_NORM[draw.corpus]}
    )
