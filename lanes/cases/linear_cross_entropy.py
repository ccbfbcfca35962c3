"""Cases of the language-model head."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw
from lanes.weights import block_elements, draw_weight

LADDER = (-20, 2)
SIZES = {
    "forward": [
        {"T": t, "V": v, "C": c}
        for t, v, c in (
            (1, 1, 1),
            (0, 5, 3),
            (3, 2, 5),
            (5, 64, 7),
            (2, 511, 9),
            (3, 512, 8),
            (7, 513, 16),
            (5, 1024, 5),
            (2, 4095, 3),
            (3, 4097, 4),
            (511, 17, 6),
            (513, 33, 5),
            (1030, 7, 3),
        )
    ],
    "backward": [
        {"T": t, "C": c} for t, c in ((0, 3), (1, 1), (5, 7), (65, 63), (3, 16385), (129, 128))
    ],
}


def build(direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Every third target is ignored; odd token counts also ask for the gradient.

    Logits stay below about a hundred.

    A zero row of h gives every token the same probability; with a vocabulary of a power of two the
    gradient is then a mean of whole numbers.
    """
    t, c = dims["T"], dims["C"]
    if direction == "backward":
        inputs = {"dnll": draw.array((t,)), "dh_unit": draw.array((t, c))}
        return Case(name, draw.corpus, inputs, {"dh": f32(t, c)}, dims)
    v, block = dims["V"], block_elements(storage)
    c = -(-c // block) * block
    h, w = draw.array((t, c)), draw_weight(draw, storage, v, c)
    lattice = draw.corpus == "lattice"
    if lattice:
        h = np.zeros_like(h)
    else:
        logits = np.abs(h.astype(np.float64)) @ np.abs(w.values).T
        h = h * np.float32(min(1.0, 60.0 / max(float(logits.max(initial=0.0)), 1e-30)))
    targets = draw.indices(t, v)
    targets[1::3] = -1
    outputs = {"nll": f32(t)} | ({"dh_unit": f32(t, c)} if t % 2 else {})
    exact = frozenset({"dh_unit"} & set(outputs) if lattice and v & (v - 1) == 0 else ())
    return Case(
        name,
        draw.corpus,
        {"h": h, "w": w.stored, "targets": targets},
        outputs,
        {"T": t, "V": v, "C": c},
        decoded={"w": w.values},
        exact=exact,
    )
