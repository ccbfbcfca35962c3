"""Cases of scatter_rows."""

from collections.abc import Mapping

import numpy as np

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 127)
SIZES = {
    "forward": [
        {"T": t, "N": n, "C": c}
        for t, n, c in (
            (0, 3, 2),
            (1, 1, 1),
            (3, 7, 5),
            (7, 7, 31),
            (64, 65, 9),
            (5, 6, 8193),
            (33, 40, 500),
        )
    ]
}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Distinct rows in random order; every third token is padding, below or beyond the buffer."""
    t, n, c = dims["T"], dims["N"], dims["C"]
    rows = draw.rng.permutation(n)[:t].astype(np.int32)
    rows[2::6], rows[5::6] = -1, n
    inputs = {"x": draw.array((t, c)), "rows": rows}
    return Case(
        name, draw.corpus, inputs, {"y": f32(n, c)}, dims, initial={"y": draw.array((n, c))}
    )
