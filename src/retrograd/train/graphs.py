"""The graphs of a session: training step, loss, logits, and the two halves of generation."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from retrograd.families import ModelConfig
from retrograd.families.transformer import Transformer, add_inputs
from retrograd.gguf import GgufFile
from retrograd.graph import Adapter, Builder, Graph, Role, Value, add_lora, differentiate, verify
from retrograd.optim import Optimizer, add_step


class Kind(Enum):
    """What a graph computes."""

    TRAIN = "train"  # nll, gradients, optimizer step
    LOSS = "loss"  # nll
    LOGITS = "logits"  # logits of every token
    PREFILL = "prefill"  # fills the key and value caches
    DECODE = "decode"  # fills the caches and gives logits


CACHED = frozenset({Kind.PREFILL, Kind.DECODE})


@dataclass(frozen=True)
class Blueprint:
    """What every graph of a session has in common.

    Attributes:
        positions: most tokens a document may have (rows of the rotary tables).
        adapters: LoRA by weight name.
    """

    file: GgufFile
    config: ModelConfig
    positions: int
    adapters: Mapping[str, Adapter]


def build_graph(
    kind: Kind, blueprint: Blueprint, tokens: int, *, optimizer: Optimizer, cache_rows: int = 0
) -> Graph:
    """A verified graph for runs of ``tokens`` tokens."""
    builder = Builder()
    inputs = add_inputs(builder, tokens, cached=kind in CACHED)
    model = Transformer(
        builder,
        blueprint.file,
        blueprint.config,
        positions=blueprint.positions,
        cache_rows=cache_rows,
    )
    if any(adapter.dropout for adapter in blueprint.adapters.values()):
        builder.add_value("token_index", (tokens,), "i32", Role.INPUT)
        builder.add_value("step", (1,), "u32", Role.INPUT)
    hidden = model.hidden(inputs)
    if kind is Kind.PREFILL:
        return verify(add_lora(builder.build(), blueprint.adapters))
    if kind in (Kind.LOGITS, Kind.DECODE):
        fields = {"x": hidden, "w": model.head()}
        logits = builder.emit("matmul", fields, settings={"alpha": 1.0}, label="logits")["y"]
        builder.outputs["logits"] = logits.id
        return verify(add_lora(builder.build(), blueprint.adapters))
    _add_loss(builder, hidden, model.head(), tokens, trained=kind is Kind.TRAIN)
    forward = verify(add_lora(builder.build(), blueprint.adapters))
    if kind is Kind.LOSS:
        return forward
    return verify(add_step(verify(differentiate(forward, {"nll": "loss_weights"})), optimizer))


def _add_loss(builder: Builder, hidden: Value, head: Value, tokens: int, *, trained: bool) -> None:
    targets = builder.add_value("targets", (tokens,), "i32", Role.INPUT)
    fields = {"h": hidden, "w": head, "targets": targets}
    drop = frozenset[str]() if trained else frozenset({"dh_unit"})
    nll = builder.emit("linear_cross_entropy", fields, drop=drop, label="head")["nll"]
    if trained:
        # The cotangent of each token's nll: 1 / (supervised tokens of the whole step).
        builder.add_value("loss_weights", (tokens,), "f32", Role.INPUT)
    builder.outputs["nll"] = nll.id
