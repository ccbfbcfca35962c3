"""IEEE binary16."""

from retrograd.formats.format import Format

FORMAT = Format(name="f16", ggml_type=1, block_elements=1, block_bytes=2)
