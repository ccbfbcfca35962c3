"""32 elements: scale and min f16, 5-bit q; y = d q + m."""

from retrograd.formats.format import Format

FORMAT = Format(name="q5_1", ggml_type=7, block_elements=32, block_bytes=24)
