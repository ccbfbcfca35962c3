"""y = a + b."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, need


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    need(
        "add",
        "both terms have one shape",
        holds=v["a"].shape == v["b"].shape,
        got=(v["a"].shape, v["b"].shape),
    )
    return Inferred({"y": (v["a"].shape, "f32")}, {"n": prod(v["a"].shape)})


def _vjp(tape: Tape) -> None:
    for name in ("a", "b"):
        if tape.wants(name):
            tape.add(name, tape.cotangent("y"))


OP = Op("add", {"forward": Kernel(("a", "b"), ("y",), _forward, in_place={"y": "a"})}, _vjp)
