"""Dropout from the counter stream: y = x scale where word >= ``threshold``, else 0.

The element's index is token_index[t] C + c, so the mask depends on the token's place in the step's
data and
not on micro-batches or packing. The mask is drawn again in backward, never stored.
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix

_SETTINGS = ("seed", "tensor", "threshold", "scale")


def _infer(name: str, out: str) -> Kernel:
    def rule(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
        t, c = matrix("dropout", name, v[name])
        return Inferred({out: ((t, c), "f32")}, {"T": t, "C": c})

    return Kernel(
        (name, "token_index", "step"), (out,), rule, settings=_SETTINGS, in_place={out: name}
    )


def _vjp(tape: Tape) -> None:
    if tape.wants("x"):
        inputs = {
            "dy": tape.cotangent("y"),
            "token_index": tape.value("token_index"),
            "step": tape.value("step"),
        }
        settings = {n: tape.setting(n) for n in _SETTINGS}
        tape.add("x", tape.emit("backward", inputs, settings=settings)["dx"])


OP = Op("dropout", {"forward": _infer("x", "y"), "backward": _infer("dy", "dx")}, _vjp)
