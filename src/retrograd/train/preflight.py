"""What a run would use, answered before a weight is touched or anything is allocated."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrograd.admission import Admitted, AdmittedCell, Combination, Judge, Refused
from retrograd.backends import Device
from retrograd.config.options import LoraOptions, TrainingOptions
from retrograd.families import ModelConfig, read_config, recognise
from retrograd.gguf import GgufFile
from retrograd.graph import Graph, Node
from retrograd.optim import Optimizer, make_optimizer
from retrograd.runtime import rows_of
from retrograd.train.adapters import make_adapters
from retrograd.train.graphs import Blueprint, Kind, build_graph

SMALLEST_TOKENS = 8  # the nodes of a graph do not depend on how many tokens it is built for
ALGORITHM = "lora-sft"


@dataclass(frozen=True)
class RowUse:
    """A kernel row of a step: how many nodes run on it, and admission's answer."""

    op: str
    row: str
    nodes: int
    answer: Admitted | Refused


@dataclass(frozen=True)
class Preflight:
    """Every answer that a run depends on.

    Attributes:
        cells: capabilities that the run is made of.
        rows: kernel rows of its training step, in the order they first run.
    """

    cells: tuple[AdmittedCell | Refused, ...]
    rows: tuple[RowUse, ...]

    @property
    def refused(self) -> tuple[Refused, ...]:
        answers = (*self.cells, *(use.answer for use in self.rows))
        return tuple(answer for answer in answers if isinstance(answer, Refused))


def combination(file: GgufFile, config: ModelConfig, optimizer: str, backend: str) -> Combination:
    """A LoRA run on this model, as the table lists it; vectors are F32 in every model."""
    matrices = (info.format for info in file.tensors.values() if len(info.shape) > 1)
    formats = tuple(sorted(set(matrices)))
    return Combination(ALGORITHM, config.architecture, formats, optimizer, backend)


def step_graph(
    file: GgufFile,
    config: ModelConfig,
    *,
    lora: LoraOptions,
    optimizer: Optimizer,
    positions: int,
) -> Graph:
    """The graph of a training step with a new adapter, for a few tokens."""
    adapters = make_adapters(config, lora, seed=0)
    blueprint = Blueprint(file, config, positions, adapters)
    return build_graph(Kind.TRAIN, blueprint, SMALLEST_TOKENS, optimizer=optimizer)


def foresee(
    file: GgufFile, lora: LoraOptions, training: TrainingOptions, device: Device
) -> Preflight:
    """As :func:`look_ahead`, from a model file whose weights stay untouched.

    Raises:
        GgufError: the file is of no listed family, or its geometry does not hold together.
        ConfigError: the adapter's targets select nothing.
    """
    config = read_config(file, recognise(file))
    run = combination(file, config, training.optimizer.name, device.name)
    optimizer = make_optimizer(training.optimizer)
    graph = step_graph(file, config, lora=lora, optimizer=optimizer, positions=SMALLEST_TOKENS)
    return look_ahead(run, graph, device)


def look_ahead(run: Combination, graph: Graph, device: Device) -> Preflight:
    """Asks the table and the device for everything that a run would use; refuses nothing."""
    judge = Judge(device)
    cells = tuple(judge.cell(cell) for cell in run.cells())
    nodes: dict[str, list[Node]] = {}
    for row, node in zip(rows_of(graph, device.name), graph.nodes, strict=True):
        nodes.setdefault(row, []).append(node)
    uses = (
        RowUse(f"{found[0].op}.{found[0].direction}", row, len(found), judge.row(row))
        for row, found in nodes.items()
    )
    return Preflight(cells, tuple(uses))


def states(preflight: Preflight) -> Mapping[str, str]:
    """State of every kernel row, by id."""
    return {use.row: use.answer.state for use in preflight.rows}
