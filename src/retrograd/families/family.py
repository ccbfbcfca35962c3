"""What a model family declares, and what a GGUF file's metadata says of a model of that family."""

import math
from dataclasses import dataclass

from retrograd.errors import GgufError
from retrograd.gguf import GgufFile


@dataclass(frozen=True)
class Family:
    """Traits of an architecture built from the dense transformer block.

    Attributes:
        neox: rotary pairs are (i, i + n_rot/2) rather than (2i, 2i + 1).
        qkv_bias: q, k and v products carry a bias.
        qk_norm: q and k are normalised per head before the rotation.
    """

    architecture: str
    neox: bool
    qkv_bias: bool
    qk_norm: bool


@dataclass(frozen=True)
class RopeScaling:
    """Frequency scaling of the rotary embedding.

    Attributes:
        kind: ``none``, ``linear`` (angles divided by factor) or ``llama3`` (low frequencies divided
            by factor, a
            smooth band between ``high_freq_factor`` and ``low_freq_factor`` wavelengths of the
            original context).
    """

    kind: str = "none"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192


@dataclass(frozen=True)
class ModelConfig:
    """Geometry of a model, from metadata alone.

    Attributes:
        width: C, elements of a token's state.
        head_size: D.
        feed_forward: inner size of the gated feed-forward block.
        n_rot: elements of a head that rotate.
        tied: the head reuses the embedding table.
    """

    family: Family
    n_layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    context: int
    norm_eps: float
    rope_base: float
    n_rot: int
    rope_scaling: RopeScaling
    tied: bool

    @property
    def architecture(self) -> str:
        return self.family.architecture

    @property
    def head_tensor(self) -> str:
        return "token_embd.weight" if self.tied else "output.weight"


def read_config(file: GgufFile, family: Family) -> ModelConfig:
    """The model's geometry.

    Raises:
        GgufError: a key is missing or its value does not hold together; the message names the key.
    """
    a = family.architecture
    width = _positive(file, f"{a}.embedding_length")
    heads = _positive(file, f"{a}.attention.head_count")
    kv_heads = file.get(f"{a}.attention.head_count_kv", heads)
    head_size = file.get(f"{a}.attention.key_length", width // heads)
    vocabulary = file.tensor("token_embd.weight").shape[0]
    n_rot = file.get(f"{a}.rope.dimension_count", head_size)
    _need(
        holds=kv_heads > 0 and heads % kv_heads == 0,
        rule="head_count_kv divides head_count",
        got=(heads, kv_heads),
    )
    _need(
        holds=0 < n_rot <= head_size and n_rot % 2 == 0,
        rule="rope.dimension_count is even and within a head",
        got=n_rot,
    )
    value_size = file.get(f"{a}.attention.value_length", head_size)
    _need(
        holds=value_size == head_size,
        rule="keys and values have one head size",
        got=(head_size, value_size),
    )
    eps = file.require(f"{a}.attention.layer_norm_rms_epsilon", float)
    base = file.get(f"{a}.rope.freq_base", 10000.0)
    _need(holds=0 < eps < 1, rule="layer_norm_rms_epsilon lies between 0 and 1", got=eps)
    _need(holds=1 < base < math.inf, rule="rope.freq_base is above 1", got=base)
    # Before anything is made for each layer: the header may claim any number of them.
    layers, tensors = _positive(file, f"{a}.block_count"), len(file.tensors)
    _need(
        holds=layers <= tensors,
        rule=f"{a}.block_count is at most the number of tensors",
        got=f"{layers} blocks of {tensors} tensors",
    )
    return ModelConfig(
        family=family,
        n_layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        feed_forward=_positive(file, f"{a}.feed_forward_length"),
        vocabulary=vocabulary,
        context=_positive(file, f"{a}.context_length"),
        norm_eps=eps,
        rope_base=base,
        n_rot=n_rot,
        rope_scaling=_read_scaling(file, a),
        tied="output.weight" not in file.tensors,
    )


def _read_scaling(file: GgufFile, a: str) -> RopeScaling:
    key = f"{a}.rope.scaling.factor"
    # A factor without a type means linear, as it did before types were written.
    kind = file.get(f"{a}.rope.scaling.type", "linear" if key in file.metadata else "none")
    if kind not in ("none", "linear", "llama3"):
        raise GgufError(
            "gguf", "rope scaling is none, linear or llama3", kind, "use a model with one of these"
        )
    factor = file.get(key, 1.0)
    rule = "rope.scaling.factor is positive and finite"
    _need(holds=0 < factor < math.inf, rule=rule, got=factor)
    if kind != "llama3":
        return RopeScaling(kind, factor)
    scaling = RopeScaling(
        kind,
        factor,
        file.get(f"{a}.rope.scaling.low_freq_factor", 1.0),
        file.get(f"{a}.rope.scaling.high_freq_factor", 4.0),
        file.get(f"{a}.rope.scaling.original_context_length", 8192),
    )
    bounds = (scaling.low_freq_factor, scaling.high_freq_factor)
    _need(
        holds=0 < bounds[0] < bounds[1],
        rule="low_freq_factor is positive and below high_freq_factor",
        got=bounds,
    )
    return scaling


def _positive(file: GgufFile, key: str) -> int:
    value = file.require(key, int)
    _need(holds=value > 0, rule=f"{key} is positive", got=value)
    return value


def _need(*, holds: bool, rule: str, got: object) -> None:
    if not holds:
        raise GgufError("gguf", rule, got, "check the file's metadata")
