"""SGD with decoupled decay and optional (Nesterov) momentum, in place on parameter and buffer."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, need


def _step(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    shape = v["g"].shape
    outputs = [n for n in ("x", "buf") if n in v]
    for name in outputs:
        need(
            "sgd",
            f"'{name}' has the shape of the gradient",
            holds=v[name].shape == shape,
            got=v[name].shape,
        )
    return Inferred({n: (shape, "f32") for n in outputs}, {"n": prod(shape)})


OP = Op(
    "sgd",
    {
        "step": Kernel(
            ("g", "settings", "clip"),
            ("x", "buf"),
            _step,
            optional=frozenset({"buf"}),
            settings=("nesterov",),
        )
    },
)
