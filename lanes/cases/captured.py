"""The corpus ``captured``: what a layer of the real model hands to each op, see ``lanes.captured``.

One case a row. A weight of a format that the model holds is the model's own; the plain formats hold
its decoded values; for the others the activations are real and the blocks are drawn. A row whose op
takes no input is not fed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lanes.captured import captured
from lanes.case import Case, f32, single
from lanes.corpora import draw
from lanes.weights import Weight, block_elements, decode, draw_weight, store
from oracles.ops import attention, rms_norm
from oracles.rope_tables import frequencies, tables
from retrograd.rows import Row

CAPTURED = "captured"
_WIDTH, _HEADS, _KV_HEADS, _HEAD_SIZE = 576, 9, 3, 64
Fields = dict[str, NDArray[np.generic]]
Rule = Callable[[str, str], Case]


def cases(row: Row) -> list[Case]:
    """The case of a row; none where nothing captured fits."""
    rule = _RULES.get(row.op)
    return [] if rule is None else [rule(row.direction, row.dtype.removesuffix("-f32"))]


def feeds(row: Row) -> int:
    """How many cases a row has; no case is made."""
    return int(row.op in _RULES)


def _case(
    inputs: Fields,
    outputs: dict[str, tuple[int, ...]],
    dims: dict[str, int],
    settings: dict[str, int | float] | None = None,
    *,
    initial: Fields | None = None,
    weight: Weight | None = None,
) -> Case:
    decoded = {} if weight is None else {"w": weight.values}
    shapes = {name: f32(*shape) for name, shape in outputs.items()}
    own = {} if weight is None else {"w": weight.stored}
    return Case(
        CAPTURED,
        CAPTURED,
        {**inputs, **own},
        shapes,
        dims,
        settings or {},
        initial=initial or {},
        decoded=decoded,
    )


def _weight(storage: str, rows: int, *, head: bool) -> Weight:
    """Rows of a projection or of the head, as many columns as whole blocks of the width."""
    block = block_elements(storage)
    columns = _WIDTH // block * block
    own = "w_q8_0" if head else "w_q4_1"
    if f"w_{storage}" in captured().arrays:
        stored = captured().arrays[f"w_{storage}"][:rows]
        return Weight(stored, decode(storage, stored, len(stored), _WIDTH))
    if block > 1:
        return draw_weight(draw("gaussian", CAPTURED, storage, seed=0), storage, rows, columns)
    stored = captured().arrays[own][:rows]
    values = decode(own.removeprefix("w_"), stored, len(stored), _WIDTH).astype(np.float32)
    return store(storage, values)


def _rms_norm(direction: str, _storage: str) -> Case:
    x, w = captured().f32("residual"), captured().f32("norm_weight")
    eps, (t, c) = single(captured().numbers["eps"]), x.shape
    if direction == "forward":
        shape = {"y": (t, c), "r": (t,)}
        return _case({"x": x, "w": w}, shape, {"T": t, "C": c}, {"eps": eps})
    wide = rms_norm.forward(x=x.astype(np.float64), w=w.astype(np.float64), eps=eps)
    inputs: Fields = {"dy": captured().f32("d_normed"), "x": x, "r": wide["r"].astype(np.float32)}
    if direction == "backward":
        more: Fields = {"w": w, "c": captured().f32("d_o")}
        return _case(inputs | more, {"dx": (t, c)}, {"T": t, "C": c})
    return _case(inputs, {"dw": (c,)}, {"T": t, "C": c})


def _matmul(direction: str, storage: str) -> Case:
    x, dy, alpha = captured().f32("residual"), captured().f32("d_normed"), {"alpha": 1.0}
    t = len(x)
    if direction == "backward_weight":
        inputs: Fields = {"dy": dy[:, :64], "x": x}
        return _case(inputs, {"dw": (64, _WIDTH)}, {"T": t, "N": 64, "K": _WIDTH}, alpha)
    w = _weight(storage, 64, head=False)
    n, k = w.values.shape
    dims = {"T": t, "N": n, "K": k}
    if direction == "forward":
        return _case({"x": x[:, :k]}, {"y": (t, n)}, dims, alpha, weight=w)
    return _case({"dy": dy[:, :n]}, {"dx": (t, k)}, dims, alpha, weight=w)


def _attention(direction: str, _storage: str) -> Case:
    names = ("q", "k", "v")
    inputs: Fields = {name: captured().f32(name) for name in names}
    t, c_kv = inputs["k"].shape
    rows = np.arange(t, dtype=np.int32)
    inputs |= {"key_begin": np.zeros_like(rows), "key_end": rows + np.int32(1)}
    scale = single(_HEAD_SIZE**-0.5)
    settings: dict[str, int | float] = {
        "heads": _HEADS,
        "kv_heads": _KV_HEADS,
        "head_size": _HEAD_SIZE,
        "scale": scale,
    }
    dims = {"T": t, "S": t}
    if direction == "forward":
        return _case(inputs, {"o": (t, _WIDTH), "L": (t, _HEADS)}, dims, settings)
    saved = attention.forward(
        q=captured().f32("q").astype(np.float64),
        k=captured().f32("k").astype(np.float64),
        v=captured().f32("v").astype(np.float64),
        key_begin=np.zeros_like(rows),
        key_end=rows + np.int32(1),
        heads=_HEADS,
        kv_heads=_KV_HEADS,
        head_size=_HEAD_SIZE,
        scale=scale,
    )
    inputs |= {name: saved[name].astype(np.float32) for name in ("o", "L")}
    inputs["d_o"] = captured().f32("d_o")
    outputs = {"dq": (t, _WIDTH), "dk": (t, c_kv), "dv": (t, c_kv)}
    return _case(inputs, outputs, dims, settings)


def _head(direction: str, storage: str) -> Case:
    hidden = captured().f32("hidden")
    t = len(hidden)
    if direction == "backward":
        dnll = np.full(t, 1 / t, np.float32)
        inputs: Fields = {"dnll": dnll, "dh_unit": captured().f32("d_normed")}
        return _case(inputs, {"dh": (t, _WIDTH)}, {"T": t, "C": _WIDTH})
    w = _weight(storage, 96, head=True)
    v, c = w.values.shape
    h = hidden[:, :c]
    # Blocks that were drawn are no head: their logits are brought to the size of real ones.
    top = float(np.abs(h.astype(np.float64) @ w.values.T).max())
    h = h * np.float32(min(1.0, 60.0 / top))
    inputs = {"h": h, "targets": captured().i32("targets") % np.int32(v)}
    return _case(inputs, {"nll": (t,), "dh_unit": (t, c)}, {"T": t, "V": v, "C": c}, weight=w)


def _rope(direction: str, _storage: str) -> Case:
    n_rot = int(captured().numbers["n_rot"])
    source, target, name = (
        ("x", "y", "q_unturned") if direction == "forward" else ("dy", "dx", "d_k")
    )
    x = captured().f32(name)
    t, c = x.shape
    exact = tables(t, frequencies(n_rot, captured().numbers["rope_base"]))
    cos, sin = (table.astype(np.float32) for table in exact)
    inputs: Fields = {source: x, "positions": np.arange(t, dtype=np.int32), "cos": cos, "sin": sin}
    settings: dict[str, int | float] = {"head_size": _HEAD_SIZE, "n_rot": n_rot, "neox": 0}
    return _case(inputs, {target: (t, c)}, {"T": t, "C": c, "P": t}, settings)


def _swiglu(direction: str, _storage: str) -> Case:
    inputs: Fields = {"g": captured().f32("gate").ravel(), "u": captured().f32("up").ravel()}
    n = inputs["g"].size
    if direction == "forward":
        return _case(inputs, {"y": (n,)}, {"n": n})
    inputs["dy"] = captured().f32("d_gated").ravel()
    return _case(inputs, {"dg": (n,), "du": (n,)}, {"n": n})


def _embedding(direction: str, storage: str) -> Case:
    ids = captured().i32("ids")
    if direction == "forward":
        w = _weight(storage, 96, head=True)
        v, c = w.values.shape
        inputs: Fields = {"ids": ids % np.int32(v)}
        return _case(inputs, {"y": (len(ids), c)}, {"T": len(ids), "V": v, "C": c}, weight=w)
    few, dy = np.int32(8), captured().f32("d_normed")
    table = _weight("f32", 8, head=True).stored
    inputs = {"dy": dy, "ids": ids % few, "c": table}
    dims = {"T": len(ids), "V": 8, "C": _WIDTH}
    return _case(inputs, {"dw": (8, _WIDTH)}, dims)


def _dequantize(_direction: str, storage: str) -> Case:
    w = _weight(storage, 64, head=False)
    flat = Weight(w.stored.reshape(-1), w.values.reshape(-1))
    return _case({}, {"y": (flat.values.size,)}, {"n": flat.values.size}, weight=flat)


def _add(_direction: str, _storage: str) -> Case:
    a, b = captured().f32("residual").ravel(), captured().f32("hidden").ravel()
    return _case({"a": a, "b": b}, {"y": (a.size,)}, {"n": a.size})


def _bias(direction: str, _storage: str) -> Case:
    """The model has no biases; the weight of a norm stands for one."""
    own, (t, c) = captured().f32("norm_weight"), captured().f32("q").shape
    if direction == "forward":
        return _case({"x": captured().f32("q"), "b": own}, {"y": (t, c)}, {"T": t, "C": c})
    inputs: Fields = {"dy": captured().f32("d_normed"), "c": own}
    return _case(inputs, {"db": (c,)}, {"T": t, "C": c})


def _dropout(direction: str, _storage: str) -> Case:
    source, target = ("x", "y") if direction == "forward" else ("dy", "dx")
    x = captured().f32("residual" if direction == "forward" else "d_normed")
    t, c = x.shape
    inputs: Fields = {
        source: x,
        "token_index": np.arange(t, dtype=np.int32),
        "step": np.ones(1, np.uint32),
    }
    settings: dict[str, int | float] = {
        "seed": 1,
        "tensor": 7,
        "threshold": 2**32 // 10,
        "scale": single(1 / 0.9),
    }
    return _case(inputs, {target: (t, c)}, {"T": t, "C": c}, settings)


def _gradient() -> NDArray[np.float32]:
    return captured().f32("gradient").ravel()


def _weights_like(g: NDArray[np.float32]) -> NDArray[np.float32]:
    return _weight("f32", 64, head=False).values.astype(np.float32).ravel()[: g.size]


def _adamw(_direction: str, _storage: str) -> Case:
    """The second step of a base weight, after a first one with the same gradients elsewhere."""
    g, b1, b2 = _gradient(), 0.9, 0.999
    numbers = (1e-3, b1, b2, 1 - b1, 1 - b2, 1 - b1**2, 1 - b2**2, 1e-8, 1 - 1e-5)
    first = np.roll(g, 4)
    old: Fields = {
        "x": _weights_like(g),
        "m": first * np.float32(1 - b1),
        "v": first * first * np.float32(1 - b2),
    }
    inputs: Fields = {
        "g": g,
        "settings": np.array(numbers).astype(np.float32),
        "clip": np.ones(1, np.float32),
    }
    return _case(inputs, {name: (g.size,) for name in old}, {"n": g.size}, initial=old)


def _sgd(_direction: str, _storage: str) -> Case:
    g = _gradient()
    old: Fields = {"x": _weights_like(g), "buf": np.roll(g, 4)}
    inputs: Fields = {
        "g": g,
        "settings": np.array([0.1, 0.9, 1 - 1e-3]).astype(np.float32),
        "clip": np.ones(1, np.float32),
    }
    shapes = {name: (g.size,) for name in old}
    return _case(inputs, shapes, {"n": g.size}, {"nesterov": 0}, initial=old)


def _sum_squares(_direction: str, _storage: str) -> Case:
    g = _gradient()
    outputs = {"sums": ((-(-g.size // 4096),), "f64")}
    return Case(CAPTURED, CAPTURED, {"g": g}, outputs, {"n": g.size})


def _clip(_direction: str, _storage: str) -> Case:
    wide = _gradient().astype(np.float64).reshape(-1, 64)
    sums = np.sum(wide * wide, axis=1)
    outputs = {"norm": ((1,), "f64"), "scale": ((1,), "f32")}
    dims = {"n": len(sums)}
    return Case(CAPTURED, CAPTURED, {"sums": sums}, outputs, dims, {"max_norm": 1e-3})


def _scatter_rows(_direction: str, _storage: str) -> Case:
    x = captured().f32("k")
    t, c = x.shape
    rows = np.arange(t, dtype=np.int32)[::-1] + np.int32(2)
    cache = np.roll(np.resize(captured().f32("v"), (t + 4, c)), 1, axis=0)
    dims = {"T": t, "N": t + 4, "C": c}
    return _case({"x": x, "rows": rows.copy()}, {"y": (t + 4, c)}, dims, initial={"y": cache})


def _margins() -> NDArray[np.float32]:
    """Logits of the head less the largest of their token."""
    w = _weight("q8_0", 96, head=True)
    logits = captured().f32("hidden").astype(np.float64) @ w.values.T
    return (logits - logits.max(axis=1, keepdims=True)).astype(np.float32)


def _exp(_direction: str, _storage: str) -> Case:
    x = _margins().ravel()
    return _case({"x": x}, {"y": (x.size,)}, {"n": x.size})


def _log(_direction: str, _storage: str) -> Case:
    """Running sums of a softmax, of which every prefix is one."""
    x = np.cumsum(np.exp(_margins().astype(np.float64)), axis=1).astype(np.float32).ravel()
    return _case({"x": x}, {"y": (x.size,)}, {"n": x.size})


_RULES: dict[str, Rule] = {
    "rms_norm": _rms_norm,
    "matmul": _matmul,
    "attention": _attention,
    "linear_cross_entropy": _head,
    "rope": _rope,
    "swiglu": _swiglu,
    "embedding": _embedding,
    "dequantize": _dequantize,
    "add": _add,
    "bias": _bias,
    "dropout": _dropout,
    "adamw": _adamw,
    "sgd": _sgd,
    "sum_squares": _sum_squares,
    "clip": _clip,
    "scatter_rows": _scatter_rows,
    "exp": _exp,
    "log": _log,
}
