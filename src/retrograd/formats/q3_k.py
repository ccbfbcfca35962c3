"""256 elements in runs of 16: 6-bit signed scale, 3-bit signed q; y = d s q."""

from retrograd.formats.format import Format

FORMAT = Format(name="q3_k", ggml_type=11, block_elements=256, block_bytes=110)
