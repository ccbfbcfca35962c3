"""IEEE binary32."""

from retrograd.formats.format import Format

FORMAT = Format(name="f32", ggml_type=0, block_elements=1, block_bytes=4)
