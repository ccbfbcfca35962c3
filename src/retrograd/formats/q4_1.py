"""32 elements: scale and min f16, 4-bit q; y = d q + m."""

from retrograd.formats.format import Format

FORMAT = Format(name="q4_1", ggml_type=3, block_elements=32, block_bytes=20)
