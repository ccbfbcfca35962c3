"""Cases of SGD."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-60, 40)
SIZES = {
    "step": [{"n": n, "kind": kind} for n in (0, 1, 9, 97, 16384, 16385) for kind in (0, 1, 2)]
}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Kind 0 has no momentum, kind 1 has it, kind 2 is Nesterov's."""
    n, kind = dims["n"], dims["kind"]
    lr, mu, decay = 0.1, 0.9, 0.25
    inputs = {
        "g": draw.array((n,)),
        "settings": np.array([lr, mu, 1 - lr * decay], dtype=np.float64).astype(np.float32),
        "clip": np.array([0.37], dtype=np.float32),
    }
    old = {"x": draw.array((n,))} | ({"buf": draw.array((n,))} if kind else {})
    return Case(
        name,
        draw.corpus,
        inputs,
        {f: f32(n) for f in old},
        {"n": n},
        {"nesterov": int(kind == 2)},
        initial=old,
    )
