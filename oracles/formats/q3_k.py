"""q3_k: d (s - 32) (q - 4), q of 3 bits, s of 6. Block: 32 bytes of top bits | 64 | 12 of s | d."""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, bits, half, pair_codes, run_bits


def decode(blocks: UInt8[Blocks, "N 110"]) -> Float64[Array, "N 256"]:
    """Elements of each block; s belongs to runs of 16."""
    run = np.arange(256) // 16
    s = bits(blocks, 96 + run % 8, 4 * (run // 8), 4) + 16 * bits(
        blocks, 104 + run % 4, 2 * (run // 4), 2
    )
    q = pair_codes(blocks, 32) + 4 * run_bits(blocks, 0)
    return half(blocks, 108) * (s - 32) * (q - 4)
