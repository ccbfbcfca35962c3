"""The tiny models as the lanes use them.

A trainer with non-trivial factors, its graph, and buffers for executors.

Inputs of a step are laid out here from their definition, not with the trainer's code: rows side by
side, positions from 0 in each row, a token sees its own row up to itself, the target of a token is
the next label of its row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fixtures import tiny
from lanes.oracle_executor import run_graph
from lanes.weights import decode
from oracles.rope_tables import frequencies, tables
from retrograd import Trainer
from retrograd.config.options import LoraOptions, OptimizerName, OptimizerOptions, TrainingOptions
from retrograd.graph import Graph, Phase, Role
from retrograd.train.graphs import Kind

Stored = NDArray[np.generic]
Rows = list[list[int]]


@dataclass(frozen=True)
class Variant:
    """A tiny model with an adapter."""

    recipe: tiny.Recipe
    lora: LoraOptions


# Biases and untied head; interleaved rotation and a quantized base; norms per head and a tied head;
# another format with masks from the counter stream.
VARIANTS: Mapping[str, Variant] = {
    "qwen2-f32": Variant(tiny.recipe(layers=2), LoraOptions(rank=3, alpha=4.0)),
    "llama-q4_1": Variant(
        tiny.recipe(arch="llama", layers=2, format="q4_1"),
        LoraOptions(rank=2, alpha=2.0, rslora=True),
    ),
    "qwen3-tied-f32": Variant(
        tiny.recipe(arch="qwen3", layers=2, tied=True), LoraOptions(rank=3, alpha=4.0)
    ),
    "qwen2-q8_0-dropout": Variant(
        tiny.recipe(layers=2, format="q8_0"), LoraOptions(rank=3, alpha=4.0, dropout=0.25)
    ),
}
IGNORED = -100


@dataclass(frozen=True)
class Step:
    """One micro-batch of ragged rows with labels, and the flat arrays that define it."""

    rows: Rows
    labels: Rows
    inputs: Mapping[str, Stored]
    n_supervised: int

    @property
    def n_tokens(self) -> int:
        """Tokens including padding."""
        return len(self.inputs["ids"])


@dataclass(frozen=True)
class Model:
    """A trainer on a tiny model, with its training graph for one step.

    Attributes:
        stored: every buffer as the device stores it.
        decoded: frozen weights in float64.
    """

    trainer: Trainer
    graph: Graph
    step: Step
    stored: Mapping[str, Stored]
    decoded: Mapping[str, NDArray[np.float64]]

    @property
    def parameters(self) -> list[str]:
        """Names of the trained tensors."""
        return [v.name for v in self.graph.values if v.role is Role.PARAMETER]

    @property
    def wide(self) -> dict[str, Stored]:
        """Buffers for the oracle executor."""
        return {**self.stored, **self.decoded}


def write_model(name: str, folder: Path) -> Path:
    """Writes the file of one of :data:`VARIANTS`."""
    return tiny.write(VARIANTS[name].recipe, folder)


def make_step(seed: int, lengths: Sequence[int]) -> Step:
    """Random rows; in each the first third is not supervised."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(3, tiny.VOCABULARY, n).tolist() for n in lengths]
    labels = [[IGNORED] * (len(row) // 3) + row[len(row) // 3 :] for row in rows]
    size = -(-sum(lengths) // 8) * 8
    flat = {n: np.zeros(size, np.int32) for n in ("ids", "positions", "key_begin", "key_end")}
    flat["targets"] = np.full(size, -1, np.int32)
    at = 0
    for row, marks in zip(rows, labels, strict=True):
        for i, token in enumerate(row):
            flat["ids"][at + i], flat["positions"][at + i] = token, i
            flat["key_begin"][at + i], flat["key_end"][at + i] = at, at + i + 1
            if i + 1 < len(row) and marks[i + 1] != IGNORED:
                flat["targets"][at + i] = marks[i + 1]
        at += len(row)
    count = int((flat["targets"] >= 0).sum())
    weights = np.where(flat["targets"] >= 0, np.float32(1 / count), np.float32(0))
    index = np.where(np.arange(size) < at, np.arange(size), -1).astype(np.int32)
    inputs: dict[str, Stored] = {
        **flat,
        "loss_weights": weights,
        "token_index": index,
        "step": np.ones(1, np.uint32),
    }
    return Step(rows, labels, inputs, count)


def open_trainer(
    path: Path,
    lora: LoraOptions,
    *,
    seed: int,
    threads: int = 1,
    micro_batch: int = 64,
    optimizer: OptimizerName = "adamw",
) -> Trainer:
    """A trainer whose factors are both non-zero, so that every gradient is."""
    momentum = 0.9 if optimizer == "sgd" else 0.0
    options = TrainingOptions(
        micro_batch=micro_batch,
        threads=threads,
        context=64,
        optimizer=OptimizerOptions(
            name=optimizer, learning_rate=1e-2, momentum=momentum, weight_decay=0.1
        ),
    )
    trainer = Trainer(path, lora=lora, training=options)
    rng = np.random.default_rng(seed)
    factors = {
        name: (rng.standard_normal(old.shape) * 0.2).astype(np.float32)
        for name, old in trainer.parameters().items()
    }
    trainer.session.set_adapters(trainer.session.adapters, factors)
    return trainer


def load(name: str, folder: Path, *, seed: int, lengths: Sequence[int] = (9, 5, 14)) -> Model:
    """Trainer, graph and buffers of one of :data:`VARIANTS` and one seed."""
    trainer = open_trainer(write_model(name, folder), VARIANTS[name].lora, seed=seed)
    step = make_step(seed, lengths)
    graph = trainer.session.graph(Kind.TRAIN, step.n_tokens)
    stored: dict[str, Stored] = {**step.inputs, **trainer.parameters()}
    decoded: dict[str, NDArray[np.float64]] = {}
    for value in graph.values:
        if value.role is Role.WEIGHT:
            stored[value.name] = trainer.session.file.data(value.name)
            rows, columns = value.shape if len(value.shape) == 2 else (1, value.shape[0])
            decoded[value.name] = decode(value.dtype, stored[value.name], rows, columns).reshape(
                value.shape
            )
    config = trainer.model
    angles = frequencies(config.n_rot, config.rope_base)
    shape = graph.value("rope.cos").shape
    for name, table in zip(("rope.cos", "rope.sin"), tables(shape[0], angles), strict=True):
        stored[name] = table.astype(np.float32)
    return Model(trainer, graph, step, stored, decoded)


def oracle_loss_and_gradients(model: Model) -> tuple[float, dict[str, NDArray[np.float64]]]:
    """Loss and gradients of the step by the oracle executor."""
    values = run_graph(model.graph, model.wide, (Phase.BEGIN, Phase.MICRO))
    gradients = {
        name: np.asarray(values[f"{name}.grad"], dtype=np.float64) for name in model.parameters
    }
    return oracle_loss(model.graph, values, model.step), gradients


def oracle_loss(graph: Graph, values: Mapping[str, Stored], step: Step) -> float:
    """Mean negative log-likelihood over the supervised tokens."""
    nll = values[graph.values[graph.outputs["nll"]].name]
    return float(np.asarray(nll, dtype=np.float64).sum()) / step.n_supervised
