"""Oracle of scatter_rows: y[rows[t],:] = x[t,:] over a buffer of N rows."""

from jaxtyping import Float64, Int32

from oracles.array import Array, Index


def forward(
    *, x: Float64[Array, "T C"], rows: Int32[Index, " T"], y: Float64[Array, "N C"]
) -> dict[str, Array]:
    """Rows outside [0, N) are padding and are dropped; all other rows of y keep what they held."""
    out = y.copy()
    for t, row in enumerate(rows):
        if 0 <= row < len(out):
            out[row] = x[t]
    return {"y": out}
