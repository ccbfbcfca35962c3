"""32 elements: scale f16, 5-bit q; y = d (q - 16)."""

from retrograd.formats.format import Format

FORMAT = Format(name="q5_0", ggml_type=6, block_elements=32, block_bytes=22)
