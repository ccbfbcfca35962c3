"""q4_0: d (q - 8), q of 4 bits. Block: d | 16 bytes."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, half, halves_nibbles


def decode(blocks: UInt8[Blocks, "N 18"]) -> Float64[Array, "N 32"]:
    """Elements of each block."""
    return half(blocks, 0) * (halves_nibbles(blocks, 2) - 8)
