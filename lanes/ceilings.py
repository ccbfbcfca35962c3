"""Ceilings of errors, derived from accumulation length, dtype and reduction shape.

Never from a measurement.

In steps (see ``lanes.comparator``). One float32 rounding is half a step of the value it rounds. A
sum of n products in any order loses at most n roundings of the sum of their sizes, so n/2 steps of
its magnitude; where a value itself is the measure, a relative error of n roundings can fill n
steps, since a step is as small as half of epsilon times the value. Second-order terms stay below
one part in 1,000 for every length here.
"""

from collections.abc import Callable, Mapping

Dims = Mapping[str, int | float]

# A value rounded once, and what float64 loses before it.
ROUNDED_ONCE = 0.5 * (1 + 2.0**-12)
# Two central differences with steps of 1e-4, extrapolated, of a loss near 5 in float64: rounding
# leaves 5 x 2^-53 / 1e-4 of the gradient's size, the fourth derivative a part of 1e-16.
CENTRAL_DIFFERENCE = 1e-8

_SLACK = 1.001
# Largest error of exp, log, logistic and SiLU of the project's header, in ulp, rounded up.
_ELEMENTARY = 2.0
_BLOCK_ROWS = 64


def ceiling(op: str, direction: str, dims: Dims) -> float:
    """Most steps that a right kernel of this op can be away from the oracle.

    Raises:
        KeyError: no ceiling was derived for the op and direction.
    """
    return _RULES[f"{op}.{direction}"](dims) * _SLACK


def _products(n: float, extra: float) -> float:
    """n products summed in any order, then ``extra`` roundings."""
    return (n + extra) / 2


def _softmax(inner: float, outer: float) -> float:
    # Logits from `inner` products and one scaling, exp and its shift, a running rescale of two sums
    # over `outer` terms, a division; every part is measured against a magnitude that holds its
    # condition.
    return inner + outer + 4 * _ELEMENTARY + 8


def _attention_backward(d: Dims) -> float:
    # The weights again, two sums over the head (dO v and dO o), their difference, then a sum over
    # keys for dq or over all queries of all heads of a group for dk and dv.
    group = d["heads"] / d["kv_heads"]
    return _softmax(d["head_size"], d["S"]) + 2 * d["head_size"] + max(d["S"], d["T"] * group) + 8


_RULES: dict[str, Callable[[Dims], float]] = {
    "add.forward": lambda _: 0.5,
    "bias.forward": lambda _: 0.5,
    "bias.backward_weight": lambda d: _products(d["T"] + 1, 0),
    "fill.forward": lambda _: 0.0,
    "scatter_rows.forward": lambda _: 0.0,
    "dequantize.forward": lambda _: 0.0,
    "embedding.forward": lambda _: 0.0,
    "embedding.backward_weight": lambda d: _products(d["T"] + 1, 0),
    "dropout.forward": lambda _: 0.5,
    "dropout.backward": lambda _: 0.5,
    "rope.forward": lambda _: 1.5,
    "rope.backward": lambda _: 1.5,
    "exp.forward": lambda _: _ELEMENTARY,
    "log.forward": lambda _: _ELEMENTARY,
    "swiglu.forward": lambda _: 2 * _ELEMENTARY + 2,
    "swiglu.backward": lambda _: 4 * _ELEMENTARY + 4,
    # mean of squares: C + 1 roundings, halved by the root; root, division, sum with eps, two
    # products.
    "rms_norm.forward": lambda d: (d["C"] + 3) / 2 + 5,
    "rms_norm.backward": lambda d: _products(d["C"] + 2, 10),
    "rms_norm.backward_weight": lambda d: _products(d["T"] + 3, 2),
    "matmul.forward": lambda d: _products(d["K"], 4),
    "matmul.backward": lambda d: _products(d["N"], 4 + d["N"] * d["K"] / 2**20),
    "matmul.backward_weight": lambda d: _products(d["T"], 4),
    "attention.forward": lambda d: _softmax(d["head_size"], d["S"]),
    "attention.backward": _attention_backward,
    "linear_cross_entropy.forward": lambda d: _softmax(d["C"], d["V"]),
    "linear_cross_entropy.backward": lambda _: 0.5,
    "adamw.step": lambda _: 12.0,
    "sgd.step": lambda _: 6.0,
    # 128 squares a partial sum, a tree of five; correctly rounded oracle; all terms positive.
    "sum_squares.forward": lambda _: 128 + 5,
    # pairwise levels, halved by the root, then root, division and the last rounding.
    "clip.forward": lambda d: d["n"].bit_length() / 2 + 3 if isinstance(d["n"], int) else 0.0,
}
