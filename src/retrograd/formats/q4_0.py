"""32 elements: scale f16, 4-bit q; y = d (q - 8)."""

from retrograd.formats.format import Format

FORMAT = Format(name="q4_0", ggml_type=2, block_elements=32, block_bytes=18)
