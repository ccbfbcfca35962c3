"""f16: IEEE binary16, little-endian."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, half


def decode(blocks: UInt8[Blocks, "N 2"]) -> Float64[Array, "N 1"]:
    """The stored number."""
    return half(blocks, 0)
