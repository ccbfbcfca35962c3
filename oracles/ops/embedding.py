"""Oracle of the embedding gather and its scatter-add gradient."""

import numpy as np
from jaxtyping import Float64, Int32

from oracles.array import Array, Index


def forward(*, ids: Int32[Index, " T"], w: Float64[Array, "V C"]) -> dict[str, Array]:
    """y[t,:] = w[ids[t],:]; an id outside [0, V) gives zeros."""
    inside = (ids >= 0) & (ids < len(w))
    y = np.zeros((len(ids), w.shape[1]))
    y[inside] = w[ids[inside]]
    return {"y": y}


def backward_weight(
    *, dy: Float64[Array, "T C"], ids: Int32[Index, " T"], c: Float64[Array, "V C"]
) -> dict[str, Array]:
    """dw = c, plus dy[t,:] in row ids[t] for every token; ids outside [0, V) add nothing."""
    dw = c.copy()
    inside = (ids >= 0) & (ids < len(c))
    np.add.at(dw, ids[inside], dy[inside])
    return {"dw": dw}


def backward_weight_magnitude(*, dy: Array, ids: Index, c: Array) -> dict[str, Array]:
    """Sum of the sizes of the terms."""
    return backward_weight(dy=np.abs(dy), ids=ids, c=np.abs(c))
