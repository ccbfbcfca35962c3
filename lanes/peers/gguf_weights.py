"""A llama-architecture GGUF file as a transformers configuration and a state dict.

GGUF files of the llama architecture store the rows of the query and key projections in the order
(head, pair, half), because their rotary embedding turns neighbouring rows; transformers keeps
(head, half, pair). ``to_peer_rows`` and ``to_file_rows`` convert between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


@dataclass(frozen=True)
class Shape:
    """The numbers of one llama-architecture file."""

    n_layers: int
    width: int
    feed_forward: int
    n_heads: int
    n_kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    rope_base: float
    norm_epsilon: float


def read_shape(reader: gguf.GGUFReader) -> Shape:
    """The architecture's numbers from the file's metadata.

    Raises:
        ValueError: the file is not of the llama architecture.
    """

    def value(key: str) -> object:
        return reader.fields[key].contents()

    if value("general.architecture") != "llama":
        message = f"the peers read the llama architecture; got {value('general.architecture')}"
        raise ValueError(message)
    n_heads, width = int(value("llama.attention.head_count")), int(value("llama.embedding_length"))
    return Shape(
        n_layers=int(value("llama.block_count")),
        width=width,
        feed_forward=int(value("llama.feed_forward_length")),
        n_heads=n_heads,
        n_kv_heads=int(value("llama.attention.head_count_kv")),
        head_size=int(value("llama.rope.dimension_count")),
        vocabulary=int(value("llama.vocab_size")),
        context=int(value("llama.context_length")),
        rope_base=float(value("llama.rope.freq_base")),
        norm_epsilon=float(value("llama.attention.layer_norm_rms_epsilon")),
    )


def n_heads_of(name: str, shape: Shape) -> int | None:
    """Heads whose rows the file permutes in the weight ``name``; None when it permutes none."""
    if ".attn_q." in name:
        return shape.n_heads
    if ".attn_k." in name:
        return shape.n_kv_heads
    return None


def to_peer_rows(rows: Array, n_heads: int) -> Array:
    """Rows in the order (head, pair, half) of the file to (head, half, pair); any trailing axes."""
    pairs = rows.shape[0] // n_heads // 2
    return rows.reshape(n_heads, pairs, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def to_file_rows(rows: Array, n_heads: int) -> Array:
    """The inverse of ``to_peer_rows``."""
    pairs = rows.shape[0] // n_heads // 2
    return rows.reshape(n_heads, 2, pairs, -1).swapaxes(1, 2).reshape(rows.shape)


def linear_names(shape: Shape) -> dict[str, str]:
    """GGUF weight name to transformers module path, for every linear layer of every block."""
    return {
        f"blk.{layer}.{ours}.weight": f"model.layers.{layer}.{theirs}"
        for layer in range(shape.n_layers)
        for ours, theirs in MODULES.items()
    }


def state_dict(path: Path) -> tuple[Shape, dict[str, Array]]:
    """The file's dequantized float32 weights under transformers' names, rows in its order."""
    reader = gguf.GGUFReader(path)
    shape = read_shape(reader)
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
    }
    names |= {ours: f"{theirs}.weight" for ours, theirs in linear_names(shape).items()}
    for layer in range(shape.n_layers):
        names |= {
            f"blk.{layer}.{ours}.weight": f"model.layers.{layer}.{theirs}.weight"
            for ours, theirs in NORMS.items()
        }
    weights: dict[str, Array] = {}
    for tensor in reader.tensors:
        if tensor.name not in names:
            message = f"no transformers name is known for the tensor {tensor.name}"
            raise ValueError(message)
        dense = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        n_heads = n_heads_of(tensor.name, shape)
        if n_heads is not None:
            dense = to_peer_rows(dense, n_heads)
        weights[names[tensor.name]] = dense
    missing = set(names.values()) - set(weights)
    if missing:
        message = f"the file lacks {len(missing)} weights; the first is {sorted(missing)[0]}"
        raise ValueError(message)
    return shape, weights
