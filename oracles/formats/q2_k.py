"""q2_k: d s q - dmin m, q of 2 bits, s and m of 4.

Block: 16 bytes of s and m | 64 of q | d | dmin.
"""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, bits, half, pair_codes


def decode(blocks: UInt8[Blocks, "N 84"]) -> Float64[Array, "N 256"]:
    """Elements of each block; s and m belong to runs of 16."""
    run = np.arange(256) // 16
    s, m = bits(blocks, run, 0, 4), bits(blocks, run, 4, 4)
    return half(blocks, 80) * s * pair_codes(blocks, 16) - half(blocks, 82) * m
