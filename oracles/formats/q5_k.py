"""q5_k: d s q - dmin m, q of 5 bits, s and m of 6.

Block: d | dmin | 12 bytes of s and m | 32 of top bits | 128 of low bits.
"""

from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, half, run_bits, run_nibbles, six_bit_scales


def decode(blocks: UInt8[Blocks, "N 176"]) -> Float64[Array, "N 256"]:
    """Elements of each block; s and m belong to runs of 32."""
    s, m = six_bit_scales(blocks, 4)
    q = run_nibbles(blocks, 48) + 16 * run_bits(blocks, 16)
    return half(blocks, 0) * s * q - half(blocks, 2) * m
