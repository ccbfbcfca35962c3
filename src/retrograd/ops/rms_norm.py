"""Root-mean-square normalisation: y = x w r, r = 1/sqrt(mean(x^2) + eps) (arXiv:1910.07467).

``w`` has C elements and normalises each run of C elements of ``x``, so that per-head norms need no
reshape.
"""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, need


def _rows(x: Spec, w: Spec) -> tuple[int, int]:
    c = w.shape[0]
    need(
        "rms_norm",
        "the last dimension is a multiple of the weight's length",
        holds=c > 0 and x.shape[-1] % c == 0,
        got=x.shape,
    )
    return prod(x.shape) // c, c


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = _rows(v["x"], v["w"])
    return Inferred({"y": (v["x"].shape, "f32"), "r": ((t,), "f32")}, {"T": t, "C": c})


def _backward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = _rows(v["x"], v["w"])
    need(
        "rms_norm", "dy has the shape of x", holds=v["dy"].shape == v["x"].shape, got=v["dy"].shape
    )
    return Inferred({"dx": (v["x"].shape, "f32")}, {"T": t, "C": c})


def _backward_weight(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t = v["r"].shape[0]
    # Without rows the addend, or else the columns of x, tell the length.
    c = prod(v["x"].shape) // t if t else v.get("c", v["x"]).shape[-1]
    return Inferred({"dw": ((c,), "f32")}, {"T": t, "C": c})


def _vjp(tape: Tape) -> None:
    dy, x, r = tape.cotangent("y"), tape.value("x"), tape.value("r")
    if tape.wants("w"):
        dw = tape.accumulator("w")
        tape.emit("backward_weight", {"dy": dy, "x": x, "r": r, "c": dw}, into={"dw": dw})
    if tape.wants("x"):
        inputs = {"dy": dy, "x": x, "w": tape.value("w"), "r": r, "c": tape.take("x")}
        tape.add("x", tape.emit("backward", inputs)["dx"])


def _weight_scratch(dims: Mapping[str, int], _s: Mapping[str, Setting], _t: int, _d: str) -> int:
    return -(-dims["T"] // 64) * dims["C"] * 4


OP = Op(
    "rms_norm",
    {
        "forward": Kernel(("x", "w"), ("y", "r"), _forward, settings=("eps",)),
        "backward": Kernel(
            ("dy", "x", "w", "r", "c"),
            ("dx",),
            _backward,
            optional=frozenset({"c"}),
            in_place={"dx": "c"},
        ),
        "backward_weight": Kernel(
            ("dy", "x", "r", "c"),
            ("dw",),
            _backward_weight,
            optional=frozenset({"c"}),
            scratch=_weight_scratch,
        ),
    },
    _vjp,
)
