"""q8_0: d q, q a signed byte. Block: d | 32 bytes."""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks, bits, half, signed


def decode(blocks: UInt8[Blocks, "N 34"]) -> Float64[Array, "N 32"]:
    """Elements of each block."""
    return half(blocks, 0) * signed(bits(blocks, 2 + np.arange(32), 0, 8))
