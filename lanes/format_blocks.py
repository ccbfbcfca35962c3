"""Stored blocks to hold decoders to: random codes under chosen 16-bit scales; comparison."""

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from retrograd.formats import FORMATS

Bytes = NDArray[np.uint8]
Singles = NDArray[np.float32]

# Byte offsets of the 16-bit fields of a block: scale, then min where there is one.
SCALES = {
    "f32": (),
    "f16": (0,),
    "bf16": (0,),
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
# The `fast` plan of the largest blocks takes every 16th pattern.
_STEP = {256: 16}


def patterns(name: str, *, every: bool) -> NDArray[np.uint16]:
    """The 16-bit patterns to try: all 65,536, or a sixteenth for blocks of 256 elements."""
    step = 1 if every else _STEP.get(FORMATS[name].block_elements, 1)
    chosen = np.arange(0, 1 << 16, step, dtype=np.int64)
    # A changing low part, so that odd fractions and NaN payloads are among the sample.
    return (chosen + (chosen // step * 7) % step).astype(np.uint16)


def blocks(name: str, *, every: bool) -> Bytes:
    """(N, block_bytes): random codes; each 16-bit field takes each pattern once, reordered."""
    rng = np.random.default_rng(sum(name.encode()))
    scales = patterns(name, every=every)
    made = rng.integers(0, 256, (len(scales), FORMATS[name].block_bytes), dtype=np.uint8)
    for place, offset in enumerate(SCALES[name]):
        column = scales if place == 0 else rng.permutation(scales)
        made[:, offset : offset + 2] = column.view(np.uint8).reshape(-1, 2)
    return made


def decoded_by_gguf(name: str, stored: Bytes) -> Singles:
    """What the gguf package's numpy decoder gives, flat."""
    row = FORMATS[name]
    data = stored.reshape(1, -1) if row.block_elements == 1 else stored
    with np.errstate(all="ignore"):
        values = dequantize(data, GGMLQuantizationType(row.ggml_type))
    return np.asarray(values, np.float32).reshape(-1)


def differing(a: Singles, b: Singles) -> int:
    """How many elements differ in their bits; a NaN equals any NaN."""
    if a.shape != b.shape or not a.size:
        raise ValueError(f"two arrays of one shape that hold something; got {a.shape}, {b.shape}")
    nan = np.isnan(a)
    return int(np.count_nonzero(nan != np.isnan(b))) + int(
        np.count_nonzero(a.view(np.uint32)[~nan] != b.view(np.uint32)[~nan])
    )
