"""Writes rows of x into rows of a persistent buffer (a key or value cache), in place."""

from collections.abc import Mapping

from retrograd.ops.op import Inferred, Kernel, Op, Setting, Spec, matrix, need


def _forward(v: Mapping[str, Spec], _: Mapping[str, Setting]) -> Inferred:
    t, c = matrix("scatter_rows", "x", v["x"])
    n, width = matrix("scatter_rows", "y", v["y"])
    need("scatter_rows", "x and the buffer have one width", holds=c == width, got=(c, width))
    return Inferred({"y": ((n, c), "f32")}, {"T": t, "N": n, "C": c})


OP = Op("scatter_rows", {"forward": Kernel(("x", "rows"), ("y",), _forward)})
