"""The same model with every tensor stored as F32, so that a reader has nothing left to round.

llama.cpp rounds activations to 8 bits where it multiplies a quantized weight. On a file whose
weights are the dequantized ones in F32 it computes in float32, which makes its logits comparable
to three digits more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

_OWN = frozenset({"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture"})


def write_widened(model: Path, path: Path) -> None:
    """Copies the metadata of ``model`` to ``path`` and its tensors as F32."""
    reader = gguf.GGUFReader(model)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key not in _OWN:
            element = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], element)
    for tensor in reader.tensors:
        dense = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(dense, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
