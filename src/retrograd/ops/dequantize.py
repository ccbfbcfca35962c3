"""The elements of a stored weight in float32."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    return Inferred({"y": (v["w"].shape, "f32")}, {"n": prod(v["w"].shape)})


OP = Op("dequantize", {"forward": Kernel(("w",), ("y",), _forward, weight="w")})
