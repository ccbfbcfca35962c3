"""q5_0: d (q - 16), q of 5 bits. Block: d | 4 bytes of top bits | 16 bytes."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, element_bits, half, halves_nibbles


def decode(blocks: UInt8[Blocks, "N 22"]) -> Float64[Array, "N 32"]:
    """Elements of each block."""
    q = halves_nibbles(blocks, 6) + 16 * element_bits(blocks, 2)
    return half(blocks, 0) * (q - 16)
