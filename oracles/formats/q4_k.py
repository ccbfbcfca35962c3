"""q4_k: d s q - dmin m, q of 4 bits, s and m of 6. Block: d | dmin | 12 bytes of s and m | 128."""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, half, run_nibbles, six_bit_scales


def decode(blocks: UInt8[Blocks, "N 144"]) -> Float64[Array, "N 256"]:
    """Elements of each block; s and m belong to runs of 32."""
    s, m = six_bit_scales(blocks, 4)
    return half(blocks, 0) * s * run_nibbles(blocks, 16) - half(blocks, 2) * m
