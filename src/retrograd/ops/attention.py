"""Grouped-query softmax attention over a range of keys (arXiv:2305.13245, 2205.14135).

Query t sees the keys [key_begin[t], key_end[t]). Causal attention, packed documents and a key cache
are all ranges.
No T x S array exists; the logarithm of the sum, L (T, H), is saved for backward.
"""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, Tape, matrix, need

QUERY_TILE = 64
KEY_TILE = 128
_SETTINGS = ("heads", "kv_heads", "head_size", "scale")
_RANGES = ("key_begin", "key_end")


def _dims(v: Mapping[str, Spec], s: Mapping[str, Setting]) -> tuple[int, int]:
    heads, kv_heads, size = int(s["heads"]), int(s["kv_heads"]), int(s["head_size"])
    t, c = matrix("attention", "q", v["q"])
    rows, c_kv = matrix("attention", "k", v["k"])
    need(
        "attention",
        "kv_heads divides heads",
        holds=kv_heads > 0 and heads % kv_heads == 0,
        got=(heads, kv_heads),
    )
    need(
        "attention",
        "q has heads x head_size columns",
        holds=c == heads * size,
        got=(c, heads, size),
    )
    need(
        "attention",
        "k has kv_heads x head_size columns",
        holds=c_kv == kv_heads * size,
        got=(c_kv, kv_heads, size),
    )
    need(
        "attention",
        "k and v have one shape",
        holds=v["k"].shape == v["v"].shape,
        got=(v["k"].shape, v["v"].shape),
    )
    for name in _RANGES:
        need(
            "attention",
            f"{name} has one entry per query",
            holds=v[name].shape == (t,),
            got=v[name].shape,
        )
    return t, rows


def _forward(v: Mapping[str, Spec], s: Mapping[str, Setting]) -> Inferred:
    t, rows = _dims(v, s)
    return Inferred(
        {"o": (v["q"].shape, "f32"), "L": ((t, int(s["heads"])), "f32")}, {"T": t, "S": rows}
    )


def _backward(v: Mapping[str, Spec], s: Mapping[str, Setting]) -> Inferred:
    t, rows = _dims(v, s)
    shapes = {"dq": v["q"].shape, "dk": v["k"].shape, "dv": v["v"].shape}
    return Inferred({n: (shape, "f32") for n, shape in shapes.items()}, {"T": t, "S": rows})


def _forward_scratch(
    _dims: Mapping[str, int], _s: Mapping[str, Setting], threads: int, _d: str
) -> int:
    return threads * QUERY_TILE * KEY_TILE * 4


def _backward_scratch(
    dims: Mapping[str, int], s: Mapping[str, Setting], threads: int, _d: str
) -> int:
    # Per-head dk and dv, folded over the group in head order afterwards, and two tiles per worker.
    partial = 2 * dims["S"] * int(s["heads"]) * int(s["head_size"])
    return (partial + threads * 2 * QUERY_TILE * KEY_TILE) * 4


def _vjp(tape: Tape) -> None:
    if not any(tape.wants(n) for n in ("q", "k", "v")):
        return
    names = ("q", "k", "v", "o", "L", *_RANGES)
    inputs = {"d_o": tape.cotangent("o"), **{n: tape.value(n) for n in names}}
    out = tape.emit("backward", inputs, settings={n: tape.setting(n) for n in _SETTINGS})
    for name in ("q", "k", "v"):
        if tape.wants(name):
            tape.add(name, out[f"d{name}"])


OP = Op(
    "attention",
    {
        "forward": Kernel(
            ("q", "k", "v", *_RANGES),
            ("o", "L"),
            _forward,
            settings=_SETTINGS,
            scratch=_forward_scratch,
        ),
        "backward": Kernel(
            ("d_o", "q", "k", "v", "o", "L", *_RANGES),
            ("dq", "dk", "dv"),
            _backward,
            settings=_SETTINGS,
            scratch=_backward_scratch,
        ),
    },
    _vjp,
)
