"""256 elements in runs of 32: 6-bit scale and min, 4-bit q; y = d s q - dmin m."""

from retrograd.formats.format import Format

FORMAT = Format(name="q4_k", ggml_type=12, block_elements=256, block_bytes=144)
