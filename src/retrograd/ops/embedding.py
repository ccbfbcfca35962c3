"""Gather of rows of a (V, C) table, dequantized; the gradient scatter-adds in token order."""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    vocabulary, c = matrix("embedding", "w", v["w"])
    t = v["ids"].shape[0]
    return Inferred({"y": ((t, c), "f32")}, {"T": t, "V": vocabulary, "C": c})


def _backward_weight(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("embedding", "dy", v["dy"])
    vocabulary, _c = matrix("embedding", "c", v["c"])
    return Inferred({"dw": ((vocabulary, c), "f32")}, {"T": t, "V": vocabulary, "C": c})


def _vjp(tape: Tape) -> None:
    if tape.wants("w"):
        dw = tape.accumulator("w")
        tape.emit(
            "backward_weight",
            {"dy": tape.cotangent("y"), "ids": tape.value("ids"), "c": dw},
            into={"dw": dw},
        )


OP = Op(
    "embedding",
    {
        "forward": Kernel(("ids", "w"), ("y",), _forward, weight="w"),
        "backward_weight": Kernel(("dy", "ids", "c"), ("dw",), _backward_weight),
    },
    _vjp,
)
