"""Chunk sums of squared gradient elements in float64, 4,096 elements a chunk, in a fixed order."""

from collections.abc import Mapping
from math import prod

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec

CHUNK = 4096


def chunks(n: int) -> int:
    """Number of chunk sums of n elements."""
    return -(-n // CHUNK)


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    n = prod(v["g"].shape)
    return Inferred({"sums": ((chunks(n),), "f64")}, {"n": n})


OP = Op("sum_squares", {"forward": Kernel(("g",), ("sums",), _forward)})
