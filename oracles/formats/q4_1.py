"""q4_1: d q + m, q of 4 bits. Block: d | m | 16 bytes."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, half, halves_nibbles


def decode(blocks: UInt8[Blocks, "N 20"]) -> Float64[Array, "N 32"]:
    """Elements of each block."""
    return half(blocks, 0) * halves_nibbles(blocks, 4) + half(blocks, 2)
