"""The file's model in transformers, and a LoRA on it in PEFT, in float64 or float32.

transformers computes three things in float32 whatever the dtype of the model: the RMS norm, the
rotary table and, in its own loss, the logits. A float64 run would carry their rounding, so
``load_base`` replaces the first two for float64 and the loss is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from lanes.peers.gguf_weights import (
    Shape,
    linear_names,
    n_heads_of,
    state_dict,
    to_file_rows,
    to_peer_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]

IGNORE = -100


class Float64Norm(nn.Module):
    """RMS norm in the dtype of its input: y = x w / sqrt(mean(x^2) + eps)."""

    def __init__(self, weight: torch.Tensor, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Float64Rotary(nn.Module):
    """cos and sin of position * base^(-2i/d), both halves alike, in float64."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        exponent = torch.arange(0, shape.head_size, 2, dtype=torch.float64) / shape.head_size
        self.frequency = shape.rope_base**-exponent

    def forward(
        self, _x: torch.Tensor, position_ids: torch.Tensor, **_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        angle = position_ids[..., None].to(torch.float64) * self.frequency
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()


@dataclass(frozen=True)
class Peer:
    """A transformers model and the shape of the file that it came from."""

    model: nn.Module
    shape: Shape

    def logits(self, token_ids: Array) -> Array:
        """Logits (B, T, V) of token ids (B, T)."""
        with torch.no_grad():
            out = self.model(input_ids=torch.from_numpy(np.asarray(token_ids, np.int64)))
        return out.logits.numpy()

    def base_logits(self, token_ids: Array) -> Array:
        """The same with the adapter switched off."""
        with self.model.disable_adapter():
            return self.logits(token_ids)


def load_float64(path: Path) -> Peer:
    """The file's model in float64 throughout."""
    return load_base(path, torch.float64)


def load_float32(path: Path) -> Peer:
    """The file's model in float32."""
    return load_base(path, torch.float32)


def load_base(path: Path, dtype: torch.dtype) -> Peer:
    """The file's model with every weight dequantized, frozen, attention by torch's sdpa."""
    shape, weights = state_dict(path)
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        num_key_value_heads=shape.n_kv_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.context,
        rms_norm_eps=shape.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    torch_weights = {name: torch.from_numpy(weight) for name, weight in weights.items()}
    torch_weights["lm_head.weight"] = torch_weights["model.embed_tokens.weight"]
    model.load_state_dict(torch_weights, strict=True)
    model = model.to(dtype).eval().requires_grad_(requires_grad=False)
    if dtype == torch.float64:
        _keep_float64(model, shape)
    return Peer(model, shape)


def _keep_float64(model: LlamaForCausalLM, shape: Shape) -> None:
    model.model.rotary_emb = Float64Rotary(shape)
    model.model.norm = Float64Norm(model.model.norm.weight.data, shape.norm_epsilon)
    for block in model.model.layers:
        for name in ("input_layernorm", "post_attention_layernorm"):
            norm = Float64Norm(getattr(block, name).weight.data, shape.norm_epsilon)
            setattr(block, name, norm)


def attach_lora(peer: Peer, *, rank: int, alpha: float) -> Peer:
    """A PEFT LoRA on every linear layer, in the dtype of the model; factors as PEFT draws them."""
    from peft import LoraConfig, get_peft_model

    dtype = next(peer.model.parameters()).dtype
    targets = sorted({module.rsplit(".", 1)[1] for module in linear_names(peer.shape).values()})
    config = LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
    )
    adapted = get_peft_model(peer.model, config, autocast_adapter_dtype=False)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)
    return Peer(adapted.eval(), peer.shape)


def _factor(peer: Peer, module: str, which: str) -> torch.Tensor:
    layer = peer.model.get_submodule(f"base_model.model.{module}")
    return getattr(layer, which)["default"].weight


def set_factors(peer: Peer, factors: Mapping[str, Array]) -> None:
    """Copies LoRA factors with GGUF names and the file's row order into the PEFT model."""
    for name, module in linear_names(peer.shape).items():
        n_heads = n_heads_of(name, peer.shape)
        b = factors[f"{name}.lora_b"]
        b = b if n_heads is None else to_peer_rows(b, n_heads)
        for which, value in (("lora_A", factors[f"{name}.lora_a"]), ("lora_B", b)):
            parameter = _factor(peer, module, which)
            if tuple(parameter.shape) != value.shape:
                message = f"{name}: {which} is {tuple(parameter.shape)}; got {value.shape}"
                raise ValueError(message)
            parameter.data.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def next_token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean of -log p(label) over supervised tokens; labels aligned with the ids, shifted here."""
    flat = logits[:, :-1].reshape(-1, logits.shape[-1])
    return nn.functional.cross_entropy(flat, labels[:, 1:].reshape(-1), ignore_index=IGNORE)


def loss_and_gradients(
    peer: Peer, token_ids: Array, labels: Array
) -> tuple[float, dict[str, Array]]:
    """Loss and the gradient of every factor, under GGUF names and in the file's row order."""
    peer.model.zero_grad(set_to_none=True)
    out = peer.model(input_ids=torch.from_numpy(np.asarray(token_ids, np.int64)))
    loss = next_token_loss(out.logits, torch.from_numpy(np.asarray(labels, np.int64)))
    loss.backward()
    gradients: dict[str, Array] = {}
    for name, module in linear_names(peer.shape).items():
        n_heads = n_heads_of(name, peer.shape)
        a, b = (_factor(peer, module, which).grad.numpy() for which in ("lora_A", "lora_B"))
        gradients[f"{name}.lora_a"] = a
        gradients[f"{name}.lora_b"] = b if n_heads is None else to_file_rows(b, n_heads)
    return float(loss.detach()), gradients
