"""Cases of matmul."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32, single
from lanes.corpora import Draw
from lanes.weights import block_elements, draw_weight

LADDER = (-60, 40)
# Tiles of 256 rows and 576, 288 or 192 columns, of 128 rows below 64 columns; slabs of 2^20
# dequantized elements.
_SHAPES = (
    (1, 1, 1),
    (2, 3, 5),
    (7, 11, 13),
    (0, 4, 3),
    (65, 64, 63),
    (3, 4, 0),
    (64, 63, 65),
    (63, 65, 127),
    (31, 129, 257),
    (1, 257, 300),
    (3, 1025, 1024),  # two slabs
    (129, 9, 40),
    (300, 289, 40),
    (255, 192, 17),
    (257, 577, 31),
)
_ALPHA = {"lattice": 2.0, "ladder": 1.0, "structured": 0.3, "gaussian": -1.7}
_SIZES = [{"T": t, "N": n, "K": k} for t, n, k in _SHAPES]
SIZES = {"forward": _SIZES, "backward": _SIZES, "backward_weight": _SIZES}


def build(direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Odd token counts come with an addend; the scale is a power of two on the lattice."""
    t, n, block = dims["T"], dims["N"], block_elements(storage)
    k = -(-dims["K"] // block) * block
    alpha = single(_ALPHA[draw.corpus])
    whole = {"T": t, "N": n, "K": k}
    shapes = {"x": (t, k), "dy": (t, n), "y": (t, n), "dx": (t, k), "dw": (n, k)}
    sources = {"forward": ("x",), "backward": ("dy",), "backward_weight": ("dy", "x")}[direction]
    target = {"forward": "y", "backward": "dx", "backward_weight": "dw"}[direction]
    inputs: dict[str, np.ndarray] = {f: draw.array(shapes[f]) for f in sources}
    decoded: dict[str, np.ndarray] = {}
    if direction != "backward_weight":
        w = draw_weight(draw, storage, n, k)
        inputs["w"], decoded["w"] = w.stored, w.values
    if t % 2:
        inputs["c"] = draw.array(shapes[target])
    exact = frozenset({target} if draw.corpus == "lattice" else ())
    return Case(
        name,
        draw.corpus,
        inputs,
        {target: f32(*shapes[target])},
        whole,
        {"alpha": alpha},
        decoded=decoded,
        exact=exact,
    )
