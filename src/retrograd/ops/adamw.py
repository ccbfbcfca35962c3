"""AdamW with decoupled decay (arXiv:1711.05101), in place on parameter and moments."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, need


def _step(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    shape = v["g"].shape
    for name in ("x", "m", "v"):
        need(
            "adamw",
            f"'{name}' has the shape of the gradient",
            holds=v[name].shape == shape,
            got=v[name].shape,
        )
    return Inferred({n: (shape, "f32") for n in ("x", "m", "v")}, {"n": prod(shape)})


OP = Op("adamw", {"step": Kernel(("g", "settings", "clip"), ("x", "m", "v"), _step)})
