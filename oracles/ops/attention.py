"""Oracle of grouped-query softmax attention over key ranges, written densely.

From arXiv:1706.03762 and arXiv:2305.13245.

Query t sees keys [key_begin[t], key_end[t]); head h reads key-value head h H_kv / H. A query
without keys gives o = 0, L = -inf and no gradient.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32

from oracles.array import UNDERFLOW, Array, Index


@dataclass(frozen=True)
class _Head:
    """One head.

    Its slices of q, k, v, and the dense probabilities with what their errors scale with.
    """

    q: Array
    k: Array
    v: Array
    p: Array  # (T, S), zero outside the range
    log_sum: Array  # (T)
    spread: Array  # (T, S): relative error of p, in units of one rounding


def forward(
    *,
    q: Float64[Array, "T C"],
    k: Float64[Array, "S C_kv"],
    v: Float64[Array, "S C_kv"],
    key_begin: Int32[Index, " T"],
    key_end: Int32[Index, " T"],
    heads: int,
    kv_heads: int,
    head_size: int,
    scale: float,
) -> dict[str, Array]:
    """o (T, H D) and the natural logarithm of the softmax sum, L (T, H)."""
    all_heads = _heads(q, k, v, key_begin, key_end, heads, kv_heads, head_size, scale)
    o = [head.p @ head.v for head in all_heads]
    return {
        "o": np.concatenate(o, axis=1),
        "L": np.stack([head.log_sum for head in all_heads], axis=1),
    }


def forward_magnitude(
    *,
    q: Array,
    k: Array,
    v: Array,
    key_begin: Index,
    key_end: Index,
    heads: int,
    kv_heads: int,
    head_size: int,
    scale: float,
) -> dict[str, Array]:
    """|P| |v|, each weight with the relative error that its logit passes on."""
    all_heads = _heads(q, k, v, key_begin, key_end, heads, kv_heads, head_size, scale)
    o = [(head.p * head.spread) @ np.abs(head.v) for head in all_heads]
    lost = [_lost_of_sum(head) for head in all_heads]
    return {"o": np.concatenate(o, axis=1), "L": np.stack(lost, axis=1)}


def _lost_of_sum(head: _Head) -> Array:
    """Size of the terms of L; where one key has all the weight, no exponentials are added."""
    single = np.sum(head.p > 0.0, axis=1) == 1
    return np.sum(head.p * head.spread, axis=1) - single


def backward(
    *,
    d_o: Float64[Array, "T C"],
    q: Float64[Array, "T C"],
    k: Float64[Array, "S C_kv"],
    v: Float64[Array, "S C_kv"],
    key_begin: Int32[Index, " T"],
    key_end: Int32[Index, " T"],
    heads: int,
    kv_heads: int,
    head_size: int,
    scale: float,
) -> dict[str, Array]:
    """dS = P (dO v - sum_j P dO v);  dq = scale dS k.

    dk = scale dS^T q and dv = P^T dO, summed over each group.
    """
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for h, head in enumerate(
        _heads(q, k, v, key_begin, key_end, heads, kv_heads, head_size, scale)
    ):
        mine, shared = _columns(h, head_size), _columns(h * kv_heads // heads, head_size)
        dp = d_o[:, mine] @ head.v.T
        ds = head.p * (dp - np.sum(head.p * dp, axis=1, keepdims=True))
        dq[:, mine] = scale * ds @ head.k
        dk[:, shared] += scale * ds.T @ head.q
        dv[:, shared] += head.p.T @ d_o[:, mine]
    return {"dq": dq, "dk": dk, "dv": dv}


def backward_magnitude(
    *,
    d_o: Array,
    q: Array,
    k: Array,
    v: Array,
    key_begin: Index,
    key_end: Index,
    heads: int,
    kv_heads: int,
    head_size: int,
    scale: float,
) -> dict[str, Array]:
    """As backward with every product by its size.

    DS by the sizes of the two terms that cancel in it.
    """
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for h, head in enumerate(
        _heads(q, k, v, key_begin, key_end, heads, kv_heads, head_size, scale)
    ):
        mine, shared = _columns(h, head_size), _columns(h * kv_heads // heads, head_size)
        p, do = head.p * head.spread, np.abs(d_o[:, mine])
        dp = do @ np.abs(head.v).T
        mean = np.sum(do * ((head.p * head.spread) @ np.abs(head.v)), axis=1, keepdims=True)
        ds = p * (dp + mean)
        dq[:, mine] = abs(scale) * ds @ np.abs(head.k)
        dk[:, shared] += abs(scale) * ds.T @ np.abs(head.q)
        dv[:, shared] += p.T @ do
    return {"dq": dq + UNDERFLOW, "dk": dk + UNDERFLOW, "dv": dv + UNDERFLOW * np.abs(d_o).sum()}


def _columns(head: int, head_size: int) -> slice:
    return slice(head * head_size, (head + 1) * head_size)


def _heads(
    q: Array,
    k: Array,
    v: Array,
    begin: Index,
    end: Index,
    heads: int,
    kv_heads: int,
    head_size: int,
    scale: float,
) -> list[_Head]:
    keys = np.arange(len(k))
    seen = (keys >= begin[:, None]) & (keys < end[:, None])
    out: list[_Head] = []
    for h in range(heads):
        mine, shared = _columns(h, head_size), _columns(h * kv_heads // heads, head_size)
        out.append(_head(q[:, mine], k[:, shared], v[:, shared], seen, scale))
    return out


def _head(q: Array, k: Array, v: Array, seen: np.ndarray, scale: float) -> _Head:
    logits = np.where(seen, scale * (q @ k.T), -np.inf)
    top = np.max(logits, axis=1, initial=-np.inf)
    empty = ~seen.any(axis=1)
    shift = np.where(empty, 0.0, top)
    with np.errstate(divide="ignore", under="ignore"):
        weight = np.exp(logits - shift[:, None])
        total = np.sum(weight, axis=1)
        log_sum = shift + np.log(total)
        p = weight / np.where(empty, 1.0, total)[:, None]
    # A logit is a sum of products; its error is the relative error of e^logit, and the shifts add
    # their own.
    sizes = np.where(seen, abs(scale) * (np.abs(q) @ np.abs(k).T), 0.0)
    average = np.sum(p * sizes, axis=1, keepdims=True)
    spread = (
        1.0
        + sizes
        + average
        + np.abs(shift)[:, None]
        + np.abs(np.where(empty, 0.0, log_sum))[:, None]
    )
    return _Head(q, k, v, p, log_sum, spread)
