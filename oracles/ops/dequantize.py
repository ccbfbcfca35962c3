"""Oracle of dequantize: the elements of a stored weight.

The weight arrives decoded by ``oracles.formats``.
"""

from jaxtyping import Float64

from oracles.array import Array


def forward(*, w: Float64[Array, " n"]) -> dict[str, Array]:
    """The decoded elements themselves."""
    return {"y": w.copy()}
