"""Cases of bias."""

from collections.abc import Mapping

from lanes.case import Case, f32
from lanes.corpora import Draw

LADDER = (-149, 100)
_SHAPES = (
    (0, 2),
    (1, 1),
    (3, 5),
    (63, 7),
    (64, 8),
    (65, 9),
    (129, 33),
    (2, 1023),
    (3, 1025),
    (200, 17),
)
_SIZES = [{"T": t, "C": c} for t, c in _SHAPES]
SIZES = {"forward": _SIZES, "backward_weight": _SIZES}


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Odd token counts come with an addend, even ones without."""
    t, c = dims["T"], dims["C"]
    if direction == "forward":
        inputs = {"x": draw.array((t, c)), "b": draw.array((c,))}
        return Case(name, draw.corpus, inputs, {"y": f32(t, c)}, dims)
    inputs = {"dy": draw.array((t, c))}
    if t % 2:
        inputs["c"] = draw.array((c,))
    return Case(name, draw.corpus, inputs, {"db": f32(c)}, dims)
