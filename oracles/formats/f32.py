"""f32: IEEE binary32, little-endian."""

import numpy as np
from jaxtyping import Float64, UInt8

from oracles.array import Array
from oracles.formats.layout import Blocks


def decode(blocks: UInt8[Blocks, "N 4"]) -> Float64[Array, "N 1"]:
    """The stored number."""
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float64)
