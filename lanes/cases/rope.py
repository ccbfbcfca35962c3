"""Cases of rope."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw
from oracles.rope_tables import frequencies, tables

LADDER = (-100, 100)
_SHAPES = (
    (0, 1, 4, 4, 1),
    (1, 1, 2, 2, 0),
    (3, 2, 4, 4, 1),
    (5, 3, 6, 4, 0),
    (7, 2, 10, 6, 1),
    (64, 1, 16, 16, 0),
    (65, 4, 16, 16, 1),
    (31, 9, 64, 64, 0),
)
_SIZES = [
    {"T": t, "heads": h, "head_size": d, "n_rot": rot, "neox": neox}
    for t, h, d, rot, neox in _SHAPES
]
SIZES = {"forward": _SIZES, "backward": _SIZES}
_POSITIONS = 40


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Positions restart and repeat.

    On the lattice the tables are whole numbers, for the map is linear in them.
    """
    t, c, half = dims["T"], dims["heads"] * dims["head_size"], dims["n_rot"] // 2
    if draw.corpus == "lattice":
        cos, sin = draw.array((_POSITIONS, half)), draw.array((_POSITIONS, half))
    else:
        exact = tables(_POSITIONS, frequencies(dims["n_rot"], 10000.0))
        cos, sin = (table.astype(np.float32) for table in exact)
    source, target = ("x", "y") if direction == "forward" else ("dy", "dx")
    inputs: dict[str, np.ndarray] = {
        source: draw.array((t, c)),
        "positions": draw.indices(t, _POSITIONS),
        "cos": cos,
        "sin": sin,
    }
    settings = {n: dims[n] for n in ("head_size", "n_rot", "neox")}
    return Case(
        name, draw.corpus, inputs, {target: f32(t, c)}, {"T": t, "C": c, "P": _POSITIONS}, settings
    )
