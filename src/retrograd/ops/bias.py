"""y[t,c] = x[t,c] + b[c]; db[c] = sum_t dy[t,c]."""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix, need


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("bias", "x", v["x"])
    need("bias", "b has one element per column of x", holds=v["b"].shape == (c,), got=v["b"].shape)
    return Inferred({"y": ((t, c), "f32")}, {"T": t, "C": c})


def _backward_weight(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("bias", "dy", v["dy"])
    return Inferred({"db": ((c,), "f32")}, {"T": t, "C": c})


def _vjp(tape: Tape) -> None:
    dy = tape.cotangent("y")
    if tape.wants("b"):
        db = tape.accumulator("b")
        tape.emit("backward_weight", {"dy": dy, "c": db}, into={"db": db})
    if tape.wants("x"):
        tape.add("x", dy)


def _scratch(dims: Mapping[str, int], _s: Mapping[str, Setting], _t: int, _d: str) -> int:
    return -(-dims["T"] // 64) * dims["C"] * 4


OP = Op(
    "bias",
    {
        "forward": Kernel(("x", "b"), ("y",), _forward, in_place={"y": "x"}),
        "backward_weight": Kernel(
            ("dy", "c"), ("db",), _backward_weight, optional=frozenset({"c"}), scratch=_scratch
        ),
    },
    _vjp,
)
