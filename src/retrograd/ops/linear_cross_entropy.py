"""The language-model head fused with cross entropy over vocabulary tiles: no T x V array exists.

nll[t] = logsumexp_v(h[t].w[v]) - h[t].w[targets[t]]; targets < 0 are ignored. The forward pass
streams a running
maximum, sum and weighted sum of rows of w (attention with the vocabulary as keys and values), which
gives
d nll[t] / d h[t] without a second pass; backward scales it by the cotangent of nll[t].
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix, need

ROW_BLOCK = 512  # active rows handled together
PARTITIONS = 8  # parts of the vocabulary, each streamed by one worker, merged in order
VOCABULARY_TILE = 512


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("linear_cross_entropy", "h", v["h"])
    vocabulary, c_w = matrix("linear_cross_entropy", "w", v["w"])
    need(
        "linear_cross_entropy",
        "h and w have one width",
        holds=c == c_w,
        got=(v["h"].shape, v["w"].shape),
    )
    need(
        "linear_cross_entropy",
        "one target per row",
        holds=v["targets"].shape == (t,),
        got=v["targets"].shape,
    )
    outputs = {"nll": ((t,), "f32"), "dh_unit": ((t, c), "f32")}
    return Inferred(outputs, {"T": t, "V": vocabulary, "C": c})


def _backward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("linear_cross_entropy", "dh_unit", v["dh_unit"])
    return Inferred({"dh": ((t, c), "f32")}, {"T": t, "C": c})


def _scratch(dims: Mapping[str, int], _s: Mapping[str, Setting], threads: int, _stored: str) -> int:
    rows, c = min(ROW_BLOCK, dims["T"]), dims["C"]
    gathered = rows * c
    partial = PARTITIONS * rows * (c + 2)
    target = rows
    tile = threads * (VOCABULARY_TILE * c + rows * VOCABULARY_TILE)
    return (gathered + partial + target + tile) * 4 + dims["T"] * 8


def _vjp(tape: Tape) -> None:
    if tape.wants("h"):
        inputs = {"dnll": tape.cotangent("nll"), "dh_unit": tape.value("dh_unit")}
        tape.add("h", tape.emit("backward", inputs)["dh"])


OP = Op(
    "linear_cross_entropy",
    {
        "forward": Kernel(
            ("h", "w", "targets"),
            ("nll", "dh_unit"),
            _forward,
            optional=frozenset({"dh_unit"}),
            weight="w",
            scratch=_scratch,
        ),
        "backward": Kernel(("dnll", "dh_unit"), ("dh",), _backward, in_place={"dh": "dh_unit"}),
    },
    _vjp,
)
