"""256 elements in runs of 16: 4-bit scale and min, 2-bit q; y = d s q - dmin m."""

from retrograd.formats.format import Format

FORMAT = Format(name="q2_k", ggml_type=10, block_elements=256, block_bytes=84)
