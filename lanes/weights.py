"""Stored weights for cases.

Random blocks of every format with chosen scales, and their decoded values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanes.corpora import Draw
from oracles.formats import DECODERS
from retrograd.formats import FORMATS

# Byte offsets of the 16-bit scales and minima inside a block, from ggml's block structs. Everything
# else in a block is integer codes, of which every bit pattern is legal.
_SCALES = {
    "q4_0": (0,),
    "q4_1": (0, 2),
    "q5_0": (0,),
    "q5_1": (0, 2),
    "q8_0": (0,),
    "q2_k": (80, 82),
    "q3_k": (108,),
    "q4_k": (0, 2),
    "q5_k": (0, 2),
    "q6_k": (208,),
}
_PLAIN = frozenset({"f32", "f16", "bf16"})


@dataclass(frozen=True)
class Weight:
    """A stored matrix.

    Attributes:
        stored: its bytes, (rows, bytes of a row) uint8; (rows, columns) float32 for f32.
        values: (rows, columns) float64, decoded.
    """

    stored: NDArray[np.generic]
    values: NDArray[np.float64]


def block_elements(storage: str) -> int:
    """Elements of one block of a format; a row of a weight holds whole blocks."""
    return FORMATS[storage].block_elements


def draw_weight(draw: Draw, storage: str, rows: int, columns: int) -> Weight:
    """A random weight; on a lattice every decoded element is a whole number."""
    if storage in _PLAIN:
        return store(storage, draw.array((rows, columns)))
    form = FORMATS[storage]
    n_blocks = rows * (columns // form.block_elements)
    blocks = draw.rng.integers(0, 256, (n_blocks, form.block_bytes), dtype=np.uint8)
    for offset in _SCALES[storage]:
        blocks[:, offset : offset + 2] = draw.scales(n_blocks).view(np.uint8).reshape(n_blocks, 2)
    stored = blocks.reshape(rows, -1)
    return Weight(stored, decode(storage, stored, rows, columns))


def store(storage: str, values: NDArray[np.float32]) -> Weight:
    """Values in a plain format: f32, f16 (rounded, clipped to its range) or bf16 (cut off)."""
    if storage == "f32":
        return Weight(values, values.astype(np.float64))
    stored = _half(values) if storage == "f16" else _brain(values)
    return Weight(stored, decode(storage, stored, *values.shape))


def decode(
    storage: str, stored: NDArray[np.generic], rows: int, columns: int
) -> NDArray[np.float64]:
    """The elements of a stored weight, by the oracle of its format.

    Rounded once to float32, then held in float64.
    """
    form = FORMATS[storage]
    blocks = np.ascontiguousarray(stored).reshape(-1).view(np.uint8).reshape(-1, form.block_bytes)
    return DECODERS[storage](blocks).reshape(rows, columns).astype(np.float32).astype(np.float64)


def _half(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    limit = np.float32(np.finfo(np.float16).max)
    with np.errstate(under="ignore"):
        return np.clip(values, -limit, limit).astype(np.float16).view(np.uint8)


def _brain(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The upper half of each float32: any pattern of 16 bits is a legal bf16."""
    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint8)
