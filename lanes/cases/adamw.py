"""Cases of AdamW."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-60, 20)
SIZES = {"step": [{"n": n} for n in (0, 1, 7, 8, 97, 16383, 16384, 16385)]}
_STEP = {"lattice": 1, "ladder": 2, "structured": 1000, "gaussian": 7}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """First, second and late steps; decay on; a clip factor below one."""
    n, t = dims["n"], _STEP[draw.corpus]
    lr, b1, b2, decay = 1e-3, 0.9, 0.999, 0.01
    numbers = (lr, b1, b2, 1 - b1, 1 - b2, 1 - b1**t, 1 - b2**t, 1e-8, 1 - lr * decay)
    inputs = {
        "g": draw.array((n,)),
        "settings": np.array(numbers, dtype=np.float64).astype(np.float32),
        "clip": np.array([1.0 if draw.corpus == "lattice" else 0.37], dtype=np.float32),
    }
    old = {"x": draw.array((n,)), "m": draw.array((n,)), "v": np.abs(draw.array((n,)))}
    return Case(name, draw.corpus, inputs, {f: f32(n) for f in ("x", "m", "v")}, dims, initial=old)
