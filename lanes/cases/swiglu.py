"""Cases of SwiGLU."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-60, 30)
_SIZES = [{"n": n} for n in (0, 1, 3, 8, 97, 16383, 16384, 16385)]
SIZES = {"forward": _SIZES, "backward": _SIZES}


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Gates from deep saturation through the sign change of the slope near -1.278."""
    n = dims["n"]
    g = draw.array((n,))
    if draw.corpus == "ladder":
        g = np.clip(g, np.float32(-120), np.float32(120))
    if draw.corpus == "gaussian":
        g = g * np.float32(3)
        g[::5] = np.float32(-1.2784645) + g[::5] * np.float32(1e-3)
    u = draw.array((n,))
    if direction == "forward":
        return Case(name, draw.corpus, {"g": g, "u": u}, {"y": f32(n)}, dims)
    inputs = {"dy": draw.array((n,)), "g": g, "u": u}
    return Case(name, draw.corpus, inputs, {"dg": f32(n), "du": f32(n)}, dims)
