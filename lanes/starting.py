"""Starting the product on as little as shows one row, or one cell of the tables.

A kernel row is started as a program of one node. A cell is started as the smallest run that needs
it: a LoRA run on a tiny model where the run document can express it, and where it cannot, the
document that asks for it by name, which the product has to refuse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fixtures import tiny
from lanes.case import Case
from lanes.catalogue import drawn
from lanes.trial import storage_of
from retrograd import Trainer
from retrograd.backends import Device, open_device
from retrograd.config.document import load_document
from retrograd.config.options import RunDocument
from retrograd.errors import RetrogradError
from retrograd.gguf import TensorData, open_gguf, write_gguf
from retrograd.graph import Builder, Graph, Role, Value
from retrograd.ops import OPS
from retrograd.rows import Row
from retrograd.runtime import Program, Store
from retrograd.train.preflight import foresee

_GRAPH_DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "uint32": "u32"}
_DOCUMENT = """
[model]
path = "{model}"
[data]
train = "train.jsonl"
[training]
steps = 1
context = 64
threads = 1
"""


@dataclass(frozen=True)
class Started:
    """What came of starting the product.

    Attributes:
        refusal: what it said instead of starting.
        refused: what it says of each row and cell of this run that it refuses, by id.
        allocations: buffers that the device handed out.
    """

    refusal: RetrogradError | None
    refused: Mapping[str, RetrogradError]
    allocations: int = 0


def smallest_case(row: Row) -> Case:
    """A case of a row that compares something."""
    sized = (case for case in drawn(row, 0, fast=True) if all(case.dims.values()))
    return min(sized, key=lambda case: sum(a.nbytes for a in case.inputs.values()))


def one_node(row: Row, case: Case) -> Graph:
    """The graph of one node on a row."""
    builder = Builder()
    inputs: dict[str, Value] = {}
    for name, array in case.inputs.items():
        if name in case.decoded:
            shape, dtype, role = case.decoded[name].shape, storage_of(row), Role.WEIGHT
        else:
            shape, dtype, role = array.shape, _GRAPH_DTYPES[str(array.dtype)], Role.INPUT
        inputs[name] = builder.add_value(name, shape, dtype, role)
    kernel = OPS[row.op].kernels[row.direction]
    written = case.outputs if row.op == "fill" else case.initial
    into = {
        name: builder.add_value(f"{name}.kept", *case.outputs[name], Role.STATE) for name in written
    }
    drop = frozenset(kernel.outputs) - set(case.outputs)
    outputs = builder.emit(
        row.op,
        inputs,
        direction=row.direction,
        settings=case.settings,
        into=into,
        drop=drop,
    )
    builder.outputs.update({name: value.id for name, value in outputs.items()})
    return builder.build()


def start_row(row: Row, case: Case, device: Device) -> Started:
    """Compiles the program of one node on a row."""
    store = Store(device)
    graph = one_node(row, case)
    for name in case.decoded:
        store.bind(name, case.inputs[name])
    before = device.stream.counters()["allocations"]
    try:
        Program(graph, store)
    except RetrogradError as error:
        now = device.stream.counters()["allocations"]
        return Started(error, {row.id: error}, now - before)
    return Started(None, {}, device.stream.counters()["allocations"] - before)


def start_cell(cell: str, facts: Mapping[str, str], folder: Path) -> Started:
    """Starts the smallest run that needs a cell.

    Args:
        cell: id of the cell, ``<topic>.<row>.<backend>``.
        facts: trains, storage and optimizer of a base-dtype cell.
        folder: where the run's files go.
    """
    topic, _, rest = cell.partition(".")
    name, _, backend = rest.rpartition(".")
    overrides: dict[str, object] = {"model.device": backend}
    model = tiny.recipe(layers=1)
    path = folder / "other.gguf"
    if topic == "families" and name in tiny.ARCHITECTURES:
        model = tiny.recipe(arch=name, layers=1)
    elif topic == "frozen-bases":
        model = _holding(name)
    elif topic == "optimizers":
        overrides["training.optimizer.name"] = name
    elif topic == "base_dtype":
        overrides["training.optimizer.name"] = facts["optimizer"]
        if facts["trains"] != "adapter":
            overrides |= {"training.trains": facts["trains"], "training.storage": facts["storage"]}
    elif topic == "training" and name != "lora-sft":
        overrides["training.algorithm"] = name
    elif topic == "execution":
        overrides[f"execution.{name}"] = True
    if topic == "families" and name not in tiny.ARCHITECTURES:
        _write_other(path, name)
    else:
        path = tiny.write(model, folder)
    try:
        document = _document(path, folder, overrides)
        return start_run(document)
    except RetrogradError as error:
        return Started(error, {cell: error})


def start_run(document: RunDocument) -> Started:
    """Opens the trainer of a run document, as ``retrograd train`` does."""
    options = document.training
    device = open_device(document.model.device, threads=1)
    file = open_gguf(document.model.path)
    answers = foresee(file, document.lora, options, device).refused
    refused = {answer.id: answer.error() for answer in answers}
    refusal: RetrogradError | None = None
    try:
        Trainer(
            document.model.path,
            lora=document.lora,
            training=options,
            device=document.model.device,
        )
    except RetrogradError as error:
        refusal = error
    return Started(refusal, refused)


def tiny_document(folder: Path) -> RunDocument:
    """A LoRA run on the smallest model."""
    return _document(tiny.write(tiny.recipe(layers=1), folder), folder, {})


def _holding(name: str) -> tiny.Recipe:
    """The smallest model whose matrices are stored in a format."""
    if name.endswith("_k"):
        return tiny.recipe(layers=1, embd=256, ff=256, format=name)
    return tiny.recipe(layers=1, format=name)


def _write_other(path: Path, architecture: str) -> None:
    """A file of a family that is not built: its name is all that there is to read."""
    metadata = {"general.architecture": architecture}
    tensor = TensorData.f32("token_embd.weight", np.zeros((4, 8), np.float32))
    write_gguf(path, metadata=metadata, tensors=[tensor])


def _document(path: Path, folder: Path, overrides: Mapping[str, object]) -> RunDocument:
    (folder / "train.jsonl").write_text('{"prompt": "a", "completion": "b"}\n', encoding="utf-8")
    run = folder / "run.toml"
    run.write_text(_DOCUMENT.format(model=path.name), encoding="utf-8")
    return load_document(run, overrides=overrides)
