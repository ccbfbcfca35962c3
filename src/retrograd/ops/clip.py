"""Global gradient norm from chunk sums, and the one factor that every tensor's step applies.

norm = sqrt(pairwise float64 sum); scale = min(1, max_norm / max(norm, 1e-12)); max_norm <= 0 gives
scale 1.
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    return Inferred({"norm": ((1,), "f64"), "scale": ((1,), "f32")}, {"n": v["sums"].shape[0]})


def _scratch(dims: Mapping[str, int], _s: Mapping[str, Setting], _t: int, _d: str) -> int:
    return dims["n"] * 8


OP = Op(
    "clip",
    {
        "forward": Kernel(
            ("sums",), ("norm", "scale"), _forward, settings=("max_norm",), scratch=_scratch
        )
    },
)
