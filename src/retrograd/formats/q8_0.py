"""32 elements: scale f16, signed 8-bit q; y = d q."""

from retrograd.formats.format import Format

FORMAT = Format(name="q8_0", ggml_type=8, block_elements=32, block_bytes=34)
