"""Cases of sum_squares."""

from collections.abc import Mapping

from lanes.case import Case
from lanes.corpora import Draw

LADDER = (-149, 127)
SIZES = {"forward": [{"n": n} for n in (0, 1, 31, 33, 97, 4095, 4096, 4097, 8193, 12289)]}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Chunk edges of 4,096; float32 values whose squares float32 cannot hold."""
    n = dims["n"]
    return Case(
        name, draw.corpus, {"g": draw.array((n,))}, {"sums": ((-(-n // 4096),), "f64")}, dims
    )
