"""256 elements in runs of 16: 8-bit signed scale, 6-bit signed q; y = d s q."""

from retrograd.formats.format import Format

FORMAT = Format(name="q6_k", ggml_type=14, block_elements=256, block_bytes=210)
