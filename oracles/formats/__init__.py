"""What stored weights mean: one file per storage format, written from the block layouts.

Each ``decode`` takes (N, bytes of a block) uint8 and gives (N, elements of a block) float64, exact.
"""

from collections.abc import Callable, Mapping

from oracles.array import Array
from oracles.formats import (
    bf16,
    f16,
    f32,
    q2_k,
    q3_k,
    q4_0,
    q4_1,
    q4_k,
    q5_0,
    q5_1,
    q5_k,
    q6_k,
    q8_0,
)
from oracles.formats.layout import Blocks

DECODERS: Mapping[str, Callable[[Blocks], Array]] = {
    "f32": f32.decode,
    "f16": f16.decode,
    "bf16": bf16.decode,
    "q4_0": q4_0.decode,
    "q4_1": q4_1.decode,
    "q5_0": q5_0.decode,
    "q5_1": q5_1.decode,
    "q8_0": q8_0.decode,
    "q2_k": q2_k.decode,
    "q3_k": q3_k.decode,
    "q4_k": q4_k.decode,
    "q5_k": q5_k.decode,
    "q6_k": q6_k.decode,
}
