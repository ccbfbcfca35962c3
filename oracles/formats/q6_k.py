"""q6_k: d s (q - 32), q of 6 bits, s a signed byte.

Block: 128 bytes of low bits | 64 of top pairs | 16 of s | d.
"""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, bits, half, pair_codes, signed


def decode(blocks: UInt8[Blocks, "N 210"]) -> Float64[Array, "N 256"]:
    """Elements of each block; s belongs to runs of 16."""
    i = np.arange(256)
    low = bits(blocks, 64 * (i // 128) + i % 64, 4 * (i // 64 % 2), 4)
    s = signed(bits(blocks, 192 + i // 16, 0, 8))
    return half(blocks, 208) * s * (low + 16 * pair_codes(blocks, 128) - 32)
