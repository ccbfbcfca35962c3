"""Cases of RMS norm."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32, single
from lanes.corpora import Draw
from oracles.ops import rms_norm

LADDER = (-60, 30)
_SHAPES = (
    (0, 3),
    (1, 1),
    (2, 5),
    (15, 33),
    (17, 16),
    (63, 8),
    (64, 64),
    (65, 7),
    (129, 31),
    (3, 257),
    (200, 4),
)
_SIZES = [{"T": t, "C": c} for t, c in _SHAPES]
SIZES = {"forward": _SIZES, "backward": _SIZES, "backward_weight": _SIZES}


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """On the lattice a row is plus or minus one power of two, so that its norm is one too.

    Only a weight gradient, or a row whose length is a power of two, then stays on the grid
    backwards.
    """
    t, c = dims["T"], dims["C"]
    x, eps = draw.array((t, c)), single(1e-5)
    lattice = draw.corpus == "lattice"
    if lattice:
        eps = 0.0
        x = (
            np.where(x > 0, np.float32(1), np.float32(-1))
            * np.float32(2) ** (np.arange(t, dtype=np.float32) % 3)[:, None]
        )
    w = draw.array((c,))
    if direction == "forward":
        exact = frozenset({"y", "r"} if lattice else ())
        outputs = {"y": f32(t, c), "r": f32(t)}
        return Case(name, draw.corpus, {"x": x, "w": w}, outputs, dims, {"eps": eps}, exact=exact)
    r = rms_norm.forward(x=x.astype(np.float64), w=w.astype(np.float64), eps=eps)["r"].astype(
        np.float32
    )
    inputs = {"dy": draw.array((t, c)), "x": x, "r": r}
    if direction == "backward":
        inputs |= {"w": w} | ({"c": draw.array((t, c))} if t % 2 else {})
        exact = frozenset({"dx"} if lattice and c & (c - 1) == 0 else ())
        return Case(name, draw.corpus, inputs, {"dx": f32(t, c)}, dims, exact=exact)
    inputs |= {"c": draw.array((c,))} if t % 2 else {}
    return Case(
        name, draw.corpus, inputs, {"dw": f32(c)}, dims, exact=frozenset({"dw"} if lattice else ())
    )
