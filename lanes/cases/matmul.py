"""Cases of matmul."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32, single
from lanes.corpora import Draw
from lanes.weights import block_elements, draw_weight

LADDER = (-60, 40)
_SHAPES = (
    (1, 1, 1),
    (2, 3, 5),
    (7, 11, 13),
    (0, 4, 3),
    (3, 4, 0),
    (64, 63, 65),
    (65, 64, 63),
    (63, 65, 127),
    (31, 129, 257),
    (129, 97, 33),
    (1, 257, 300),
    (3, 1025, 1024),  # two slabs of dequantized rows
    (257, 513, 31),
)
_SIZES = [{"T": t, "N": n, "K": k} for t, n, k in _SHAPES]
SIZES = {"forward": _SIZES, "backward": _SIZES, "backward_weight": _SIZES}


def build(direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Odd token counts come with an addend; scale 1 on half of the cases, else one that rounds."""
    t, n, block = dims["T"], dims["N"], block_elements(storage)
    k = -(-dims["K"] // block) * block
    alpha = single(1.0 if n % 2 or draw.corpus == "lattice" else 0.3)
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
