"""A LoRA adapter in llama.cpp's form, written through the ``gguf`` package alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np

from lanes.peers.gguf_weights import linear_names, read_shape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    Factors = Mapping[str, npt.NDArray[np.float32]]


def draw_factors(model: Path, *, rank: int, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Random factors for every linear layer, B not zero, under GGUF names.

    lora_a (r, in) is uniform in +-1/sqrt(in) as at the start of a run; lora_b (out, r) is normal
    with deviation 0.02, which changes the logits of a 135M-parameter model by a few units.
    """
    draw = np.random.default_rng(seed)
    reader = gguf.GGUFReader(model)
    wanted = linear_names(read_shape(reader))
    factors: dict[str, npt.NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        if tensor.name in wanted:
            n_in, n_out = (int(n) for n in tensor.shape)
            a = draw.uniform(-1, 1, (rank, n_in)) / np.sqrt(n_in)
            factors[f"{tensor.name}.lora_a"] = a.astype(np.float32)
            factors[f"{tensor.name}.lora_b"] = draw.normal(0, 0.02, (n_out, rank)).astype(
                np.float32
            )
    return factors


def write_adapter(path: Path, factors: Factors, *, alpha: float) -> None:
    """Writes factors under GGUF names as an adapter of the llama architecture."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for name, factor in factors.items():
        writer.add_tensor(name, np.ascontiguousarray(factor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_factors(path: Path) -> tuple[float, dict[str, npt.NDArray[np.float32]]]:
    """(alpha, factors by tensor name) of an adapter file."""
    reader = gguf.GGUFReader(path)
    factors = {tensor.name: np.array(tensor.data, np.float32) for tensor in reader.tensors}
    return float(reader.fields[gguf.Keys.Adapter.LORA_ALPHA].contents()), factors
