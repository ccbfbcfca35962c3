"""Cases of exp."""

from collections.abc import Mapping

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 7)
SIZES = {"forward": [{"n": n} for n in (0, 1, 9, 97, 16385, 20000)]}


def build(_direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Arguments of both signs, into overflow and underflow."""
    n = dims["n"]
    x = draw.array((n,))
    if draw.corpus == "gaussian":
        x *= 40
    return Case(name, draw.corpus, {"x": x}, {"y": f32(n)}, dims)
