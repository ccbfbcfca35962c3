"""Cases of embedding."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw
from lanes.weights import block_elements, draw_weight

LADDER = (-149, 100)
SIZES = {
    "forward": [
        {"T": t, "V": v, "C": c}
        for t, v, c in (
            (0, 3, 2),
            (1, 1, 1),
            (5, 7, 63),
            (64, 13, 64),
            (65, 31, 65),
            (3, 5, 8193),
            (257, 17, 96),
        )
    ],
    "backward_weight": [
        {"T": t, "V": v, "C": c}
        for t, v, c in ((0, 3, 2), (1, 1, 1), (5, 7, 63), (64, 13, 64), (65, 31, 65), (257, 3, 129))
    ],
}


def build(direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """The last row is always asked for, and one id on either side of the table."""
    t, v, block = dims["T"], dims["V"], block_elements(storage)
    c = -(-dims["C"] // block) * block
    ids = draw.indices(t, v)
    ids[:1], ids[3:4], ids[4:5] = v - 1, -1, v
    whole = {**dims, "C": c}
    if direction == "forward":
        w = draw_weight(draw, storage, v, c)
        return Case(
            name,
            draw.corpus,
            {"ids": ids, "w": w.stored},
            {"y": f32(t, c)},
            whole,
            decoded={"w": w.values},
        )
    inputs: dict[str, np.ndarray] = {"dy": draw.array((t, c)), "ids": ids, "c": draw.array((v, c))}
    return Case(name, draw.corpus, inputs, {"dw": f32(v, c)}, whole)
