"""SwiGLU (arXiv:2002.05202): y = silu(g) u.

du = dy silu(g); dg = dy u s(g) (1 + g (1 - s(g))), s the logistic function.
"""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, need


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    need(
        "swiglu",
        "g and u have one shape",
        holds=v["g"].shape == v["u"].shape,
        got=(v["g"].shape, v["u"].shape),
    )
    return Inferred({"y": (v["g"].shape, "f32")}, {"n": prod(v["g"].shape)})


def _backward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    shape = v["g"].shape
    need("swiglu", "dy has the shape of g", holds=v["dy"].shape == shape, got=v["dy"].shape)
    return Inferred({"dg": (shape, "f32"), "du": (shape, "f32")}, {"n": prod(shape)})


def _vjp(tape: Tape) -> None:
    if not (tape.wants("g") or tape.wants("u")):
        return
    out = tape.emit(
        "backward", {"dy": tape.cotangent("y"), "g": tape.value("g"), "u": tape.value("u")}
    )
    for name in ("g", "u"):
        if tape.wants(name):
            tape.add(name, out[f"d{name}"])


OP = Op(
    "swiglu",
    {
        "forward": Kernel(("g", "u"), ("y",), _forward),
        "backward": Kernel(("dy", "g", "u"), ("dg", "du"), _backward, in_place={"du": "dy"}),
    },
    _vjp,
)
