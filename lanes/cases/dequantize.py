"""Cases of dequantize."""

from collections.abc import Mapping

from lanes.case import Case, f32
from lanes.corpora import Draw
from lanes.weights import block_elements, draw_weight

LADDER = (-149, 127)
SIZES = {"forward": [{"n": n} for n in (0, 1, 256, 257, 768, 4096, 16384, 16640, 33000)]}


def build(_direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """n rounded up to whole blocks."""
    block = block_elements(storage)
    n = -(-dims["n"] // block) * block
    w = draw_weight(draw, storage, 1, n)
    return Case(
        name,
        draw.corpus,
        {"w": w.stored.reshape(-1)},
        {"y": f32(n)},
        {"n": n},
        decoded={"w": w.values.reshape(-1)},
    )
