"""Cases of log."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 127)
SIZES = {"forward": [{"n": n} for n in (0, 1, 9, 97, 16385, 20000)]}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Positive arguments, many of them beside 1, and a few outside the domain."""
    n = dims["n"]
    x = np.abs(draw.array((n,)))
    if draw.corpus == "gaussian":
        x = np.float32(1) + (x - np.float32(0.8)) * np.float32(2.0**-6)
    x[::17] *= np.float32(-1)
    return Case(name, draw.corpus, {"x": x}, {"y": f32(n)}, dims)
