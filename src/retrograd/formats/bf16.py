"""The upper 16 bits of IEEE binary32."""

from retrograd.formats.format import Format

FORMAT = Format(name="bf16", ggml_type=30, block_elements=1, block_bytes=2)
