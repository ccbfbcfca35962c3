"""Cases of add."""

from collections.abc import Mapping

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 127)
SIZES = {"forward": [{"n": n} for n in (0, 1, 2, 7, 9, 97, 16383, 16384, 16385, 32769)]}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Two arrays of n elements."""
    n = dims["n"]
    return Case(
        name, draw.corpus, {"a": draw.array((n,)), "b": draw.array((n,))}, {"y": f32(n)}, dims
    )
