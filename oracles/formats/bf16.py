"""bf16: the upper 16 bits of IEEE binary32, little-endian."""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks


def decode(blocks: UInt8[Blocks, "N 2"]) -> Float64[Array, "N 1"]:
    """The number whose lower 16 bits are zero."""
    words = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << np.uint32(16)
    return words.view(np.float32).astype(np.float64)
