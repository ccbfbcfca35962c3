"""Sets every element of a buffer to one value, such as gradients to zero before a step."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    # The only op whose output's shape comes from the buffer it writes (``into``), passed here as
    # ``y``.
    return Inferred({"y": (v["y"].shape, "f32")}, {"n": prod(v["y"].shape)})


OP = Op("fill", {"forward": Kernel((), ("y",), _forward, settings=("value",))})
