"""Rotary position embedding (arXiv:2104.09864) with tables from the host.

Settings: ``head_size`` D, ``n_rot`` elements of each head that rotate, ``neox`` 1 for pairs (i, i +
n_rot/2),
0 for interleaved pairs (2i, 2i + 1). ``positions[t]`` selects a row of the tables, so that packed
documents
restart at 0.
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix, need

_SETTINGS = ("head_size", "n_rot", "neox")


def _infer(name: str, out: str) -> Kernel:
    def rule(v: Mapping[str, Spec], s: Mapping[str, Setting]) -> Inferred:
        t, c = matrix("rope", name, v[name])
        p, half = matrix("rope", "cos", v["cos"])
        need(
            "rope",
            "head_size divides the columns",
            holds=c % int(s["head_size"]) == 0,
            got=(c, s["head_size"]),
        )
        need(
            "rope",
            "the tables hold n_rot/2 columns",
            holds=half * 2 == s["n_rot"],
            got=(half, s["n_rot"]),
        )
        need(
            "rope", "n_rot is at most head_size", holds=s["n_rot"] <= s["head_size"], got=s["n_rot"]
        )
        return Inferred({out: ((t, c), "f32")}, {"T": t, "C": c, "P": p})

    inputs = (name, "positions", "cos", "sin")
    return Kernel(inputs, (out,), rule, settings=_SETTINGS, in_place={out: name})


def _vjp(tape: Tape) -> None:
    if tape.wants("x"):
        inputs = {
            "dy": tape.cotangent("y"),
            **{n: tape.value(n) for n in ("positions", "cos", "sin")},
        }
        settings = {n: tape.setting(n) for n in _SETTINGS}
        tape.add("x", tape.emit("backward", inputs, settings=settings)["dx"])


OP = Op("rope", {"forward": _infer("x", "y"), "backward": _infer("dy", "dx")}, _vjp)
