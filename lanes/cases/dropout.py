"""Cases of dropout."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32, single
from lanes.corpora import Draw

LADDER = (-149, 120)
_SHAPES = ((0, 3), (1, 1), (5, 3), (7, 4), (3, 257), (65, 65), (2, 1029), (9, 16385))
_SIZES = [{"T": t, "C": c} for t, c in _SHAPES]
SIZES = {"forward": _SIZES, "backward": _SIZES}
# By number of the corpus: nothing dropped, a usual rate, almost everything dropped.
_RATES = {"lattice": 0.5, "ladder": 0.0, "structured": 0.9, "gaussian": 0.1}


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Tokens in shuffled order with gaps and padding.

    Large token numbers reach the upper counter word.
    """
    t, c = dims["T"], dims["C"]
    rate = _RATES[draw.corpus]
    tokens = draw.rng.permutation(t).astype(np.int32)
    if draw.corpus == "structured":
        tokens += np.int32(2**31 - 1 - t)
    tokens[2::5] = -1
    source, target = ("x", "y") if direction == "forward" else ("dy", "dx")
    step = draw.rng.integers(0, 2**32, 1).astype(np.uint32)
    settings = {
        "seed": int(draw.rng.integers(0, 2**63)) * 2 + 1,
        "tensor": int(draw.rng.integers(0, 2**32)),
        "threshold": int(rate * 2**32),
        "scale": single(1 / (1 - rate)),
    }
    inputs: dict[str, np.ndarray] = {
        source: draw.array((t, c)),
        "token_index": tokens,
        "step": step,
    }
    return Case(name, draw.corpus, inputs, {target: f32(t, c)}, dims, settings)
