"""Cases of attention."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lanes.case import Case, f32, single
from lanes.corpora import Draw
from oracles.ops import attention

LADDER = (-20, 2)
_SHAPES = (
    (1, 1, 1, 1, 1),
    (2, 2, 6, 2, 1),
    (0, 3, 2, 1, 4),
    (5, 5, 2, 1, 4),
    (7, 13, 3, 3, 7),
    (63, 63, 2, 2, 8),
    (64, 64, 4, 2, 8),
    (65, 65, 2, 1, 16),
    (3, 127, 2, 1, 5),
    (64, 128, 1, 1, 64),
    (66, 129, 6, 3, 8),
    (129, 257, 4, 2, 16),
    (200, 300, 9, 3, 8),
)
_SIZES = [
    dict(zip(("T", "S", "heads", "kv_heads", "head_size"), shape, strict=True)) for shape in _SHAPES
]
SIZES = {"forward": _SIZES, "backward": _SIZES}


def build(direction: str, _storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
    """Causal ranges, packed documents with fully masked rows, windows.

    On the lattice, equal weights.

    Elsewhere queries are scaled until no logit exceeds 60, as in a model: backward reads the sum of
    the softmax from a float32, and what that loses of a logit of 10^4 would hide two percent.

    Zero queries give every visible key the same weight. Where a range holds a power of two of keys
    the output is then a mean of whole numbers that float32 holds.
    """
    t, s = dims["T"], dims["S"]
    c, c_kv = dims["heads"] * dims["head_size"], dims["kv_heads"] * dims["head_size"]
    q, k, v, d_o = (draw.array(shape) for shape in ((t, c), (s, c_kv), (s, c_kv), (t, c)))
    lattice = draw.corpus == "lattice"
    if lattice:
        q = np.zeros_like(q)
    elif t and s:
        q = q * np.float32(min(1.0, 60.0 / max(_largest_logit(q, k, dims), 1e-30)))
    begin, end = _ranges(draw, t, s)
    fields: dict[str, np.ndarray] = {"q": q, "k": k, "v": v, "key_begin": begin, "key_end": end}
    scale = single(dims["head_size"] ** -0.5)
    counts = {n: dims[n] for n in ("heads", "kv_heads", "head_size")}
    settings: dict[str, int | float] = {**counts, "scale": scale}
    shape = {"T": t, "S": s}
    if direction == "forward":
        outputs = {"o": f32(t, c), "L": f32(t, dims["heads"])}
        exact = frozenset({"o"} if lattice else ())
        return Case(name, draw.corpus, fields, outputs, shape, settings, exact=exact)
    saved = attention.forward(
        q=q.astype(np.float64),
        k=k.astype(np.float64),
        v=v.astype(np.float64),
        key_begin=begin,
        key_end=end,
        heads=dims["heads"],
        kv_heads=dims["kv_heads"],
        head_size=dims["head_size"],
        scale=scale,
    )
    inputs = {
        "d_o": d_o,
        **fields,
        "o": saved["o"].astype(np.float32),
        "L": saved["L"].astype(np.float32),
    }
    outputs = {"dq": f32(t, c), "dk": f32(s, c_kv), "dv": f32(s, c_kv)}
    return Case(name, draw.corpus, inputs, outputs, shape, settings)


def _largest_logit(
    q: NDArray[np.float32], k: NDArray[np.float32], dims: Mapping[str, int]
) -> float:
    """Over all queries, keys and heads, the ones that a range hides included."""
    size, group = dims["head_size"], dims["heads"] // dims["kv_heads"]
    heads = q.astype(np.float64).reshape(len(q), -1, size)
    keys = np.repeat(k.astype(np.float64).reshape(len(k), -1, size), group, axis=1)
    return float(np.abs(np.einsum("tnd,snd->tns", heads, keys)).max()) * size**-0.5


def _ranges(draw: Draw, t: int, s: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    rows = np.arange(t)
    last = np.minimum(rows + 1 + (s - t if s > t else 0), s)  # queries are the newest of s keys
    match draw.corpus:
        case "lattice":
            width = 2 ** draw.rng.integers(0, max(1, s.bit_length()), t)
            begin = draw.rng.integers(0, s, t) if s else rows
            width = np.where(begin + width <= s, width, 1)
            return begin.astype(np.int32), (begin + width).astype(np.int32)
        case "structured":  # documents of 17 keys; every fifth query sees nothing
            begin = (last - 1) // 17 * 17
            last = np.where(rows % 5 == 3, begin, last)
        case "ladder":  # a window
            begin = np.maximum(last - 37, 0)
        case _:
            begin = np.zeros(t, dtype=np.int64)
    return begin.astype(np.int32), last.astype(np.int32)
