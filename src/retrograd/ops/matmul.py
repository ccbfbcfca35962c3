"""y = alpha x w^T [+ c] with w (N, K) in any storage format.

dx = alpha dy w [+ c];  dw = alpha dy^T x [+ c] for a weight held in f32.
The addend ``c`` carries residuals, LoRA's base product and partial cotangents, so that none of them
costs a pass.
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Shape, Spec, Tape, matrix, need

# Elements of dequantized weight that exist at a time; a multiple of nothing: whole rows, at least
# one.
SLAB_ELEMENTS = 1 << 20


def slab_rows(columns: int) -> int:
    """Rows of the weight that are dequantized together (fixed by the shape alone)."""
    return max(1, SLAB_ELEMENTS // max(columns, 1))


def _need(v: Mapping[str, Spec], name: str, shape: Shape) -> None:
    if name in v:
        need(
            "matmul", f"'{name}' has shape {shape}", holds=v[name].shape == shape, got=v[name].shape
        )


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, k = matrix("matmul", "x", v["x"])
    n, k_w = matrix("matmul", "w", v["w"])
    need(
        "matmul",
        "x and w have one inner dimension",
        holds=k == k_w,
        got=(v["x"].shape, v["w"].shape),
    )
    _need(v, "c", (t, n))
    return Inferred({"y": ((t, n), "f32")}, {"T": t, "N": n, "K": k})


def _backward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, n = matrix("matmul", "dy", v["dy"])
    n_w, k = matrix("matmul", "w", v["w"])
    need(
        "matmul",
        "dy has one column per row of w",
        holds=n == n_w,
        got=(v["dy"].shape, v["w"].shape),
    )
    _need(v, "c", (t, k))
    return Inferred({"dx": ((t, k), "f32")}, {"T": t, "N": n, "K": k})


def _backward_weight(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, n = matrix("matmul", "dy", v["dy"])
    t_x, k = matrix("matmul", "x", v["x"])
    need(
        "matmul",
        "dy and x have one row per token",
        holds=t == t_x,
        got=(v["dy"].shape, v["x"].shape),
    )
    _need(v, "c", (n, k))
    return Inferred({"dw": ((n, k), "f32")}, {"T": t, "N": n, "K": k})


def _scratch(dims: Mapping[str, int], _s: Mapping[str, Setting], _threads: int, stored: str) -> int:
    if stored == "f32":
        return 0
    return min(slab_rows(dims["K"]), dims["N"]) * dims["K"] * 4


def _vjp(tape: Tape) -> None:
    dy, alpha = tape.cotangent("y"), {"alpha": tape.setting("alpha")}
    if tape.has("c") and tape.wants("c"):
        tape.add("c", dy)
    if tape.wants("w"):
        dw = tape.accumulator("w")
        tape.emit(
            "backward_weight",
            {"dy": dy, "x": tape.value("x"), "c": dw},
            settings=alpha,
            into={"dw": dw},
        )
    if tape.wants("x"):
        inputs = {"dy": dy, "w": tape.value("w"), "c": tape.take("x")}
        tape.add("x", tape.emit("backward", inputs, settings=alpha)["dx"])


_C = frozenset({"c"})

OP = Op(
    "matmul",
    {
        "forward": Kernel(
            ("x", "w", "c"),
            ("y",),
            _forward,
            optional=_C,
            settings=("alpha",),
            weight="w",
            in_place={"y": "c"},
            scratch=_scratch,
        ),
        "backward": Kernel(
            ("dy", "w", "c"),
            ("dx",),
            _backward,
            optional=_C,
            settings=("alpha",),
            weight="w",
            in_place={"dx": "c"},
            scratch=_scratch,
        ),
        "backward_weight": Kernel(
            ("dy", "x", "c"), ("dw",), _backward_weight, optional=_C, settings=("alpha",)
        ),
    },
    _vjp,
)
