"""q5_1: d q + m, q of 5 bits. Block: d | m | 4 bytes of top bits | 16 bytes."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, element_bits, half, halves_nibbles


def decode(blocks: UInt8[Blocks, "N 24"]) -> Float64[Array, "N 32"]:
    """Elements of each block."""
    q = halves_nibbles(blocks, 8) + 16 * element_bits(blocks, 4)
    return half(blocks, 0) * q + half(blocks, 2)
