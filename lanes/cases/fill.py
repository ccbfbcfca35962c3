"""Cases of fill."""

from collections.abc import Mapping

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 127)
SIZES = {"forward": [{"n": n} for n in (0, 1, 5, 97, 16384, 16385)]}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """One value, over poison."""
    value = float(draw.array((1,))[0])
    return Case(name, draw.corpus, {}, {"y": f32(dims["n"])}, dims, {"value": value})
