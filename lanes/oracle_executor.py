"""Any graph in float64, node by node, with the oracles.

The executor knows no model: it binds a node's fields to arrays, calls
``oracles.ops.<op>.<direction>`` and stores what comes back. Parameters, states and gradients are
written in place and live on between runs; a value that is a view reads and writes its part of the
base buffer; activations exist for one run.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from math import prod

import numpy as np
from numpy.typing import NDArray

from retrograd.graph import Graph, Node, Phase, Role, Value

Stored = NDArray[np.generic]
Observer = Callable[[Node, Mapping[str, Stored], Mapping[str, Stored]], None]

_ITEM_BYTES = {"f32": 4, "f64": 8, "i32": 4, "u32": 4}
# Settings that the argument struct holds as float64; all other fractions are rounded to float32 on
# the way in.
_WIDE_SETTINGS = frozenset({"max_norm"})


class MissingBufferError(Exception):
    """A value is read that nobody filled."""


def run_graph(
    graph: Graph,
    buffers: Mapping[str, Stored],
    phases: Iterable[Phase],
    *,
    on_node: Observer | None = None,
) -> dict[str, Stored]:
    """Runs phases of a graph in float64.

    Args:
        buffers: arrays by value name: inputs, weights (decoded), constants, parameters; gradients
            and states where they do not start as zeros. Integer arrays stay as they are. Nothing in
            it is modified.
        phases: which phases, in this order.
        on_node: called after each node with its inputs and its outputs by field name.

    Returns:
        Every value by name as the run left it.

    Raises:
        MissingBufferError: a node reads something that ``buffers`` lacks.
    """
    memory = Memory(graph, buffers)
    for phase in phases:
        for node in graph.phase(phase):
            inputs, outputs = run_node(graph, node, memory)
            if on_node is not None:
                on_node(node, inputs, outputs)
    return memory.named()


class Memory:
    """Arrays of a graph's values; views share their base's memory."""

    def __init__(self, graph: Graph, buffers: Mapping[str, Stored]) -> None:
        self.graph = graph
        self._arrays: dict[int, Stored] = {}
        for value in graph.values:
            if value.view is None and value.name in buffers:
                self._arrays[value.id] = _widened(value, buffers[value.name])
            elif value.view is None and value.role in (Role.STATE, Role.GRADIENT):
                self._arrays[value.id] = np.zeros(value.shape)

    def read(self, vid: int) -> Stored:
        """The present contents of a value, its own memory and not a copy."""
        value = self.graph.values[vid]
        if value.view is not None:
            base, offset = value.view
            begin = offset // _ITEM_BYTES[value.dtype]
            return (
                self.read(base).reshape(-1)[begin : begin + prod(value.shape)].reshape(value.shape)
            )
        if vid not in self._arrays:
            raise MissingBufferError(
                f"[executor] '{value.name}' ({value.role.value}) is filled before it is read"
            )
        return self._arrays[vid]

    def write(self, vid: int, array: Stored) -> None:
        """Stores a result.

        Over the old contents of a persistent value, as a new array for an activation.
        """
        value = self.graph.values[vid]
        shaped = np.asarray(array, dtype=np.float64).reshape(value.shape)
        if value.role is Role.ACTIVATION and value.view is None:
            self._arrays[vid] = shaped
        else:
            self.read(vid)[...] = shaped

    def holds(self, vid: int) -> bool:
        """Whether a value can be read now."""
        value = self.graph.values[vid]
        return self.holds(value.view[0]) if value.view is not None else vid in self._arrays

    def named(self) -> dict[str, Stored]:
        """Copies of everything that holds something, by name."""
        return {
            value.name: self.read(value.id).copy()
            for value in self.graph.values
            if self.holds(value.id)
        }


def run_node(
    graph: Graph, node: Node, memory: Memory
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Evaluates one node with its oracle; returns inputs and outputs as the oracle saw them."""
    inputs = {name: memory.read(vid).copy() for name, vid in node.inputs.items()}
    persistent = {
        name: memory.read(vid).copy()
        for name, vid in node.outputs.items()
        if graph.values[vid].role is not Role.ACTIVATION and name not in inputs
    }
    outputs = evaluate(node, {**persistent, **inputs})
    for name, vid in node.outputs.items():
        memory.write(vid, outputs[name])
    return {**persistent, **inputs}, {
        name: outputs[name].reshape(graph.values[vid].shape) for name, vid in node.outputs.items()
    }


def evaluate(node: Node, arrays: Mapping[str, Stored], *, suffix: str = "") -> dict[str, Stored]:
    """Calls a node's oracle, or with suffix ``_magnitude`` the sizes of its terms ({} for none)."""
    module = import_module(f"oracles.ops.{node.op}")
    oracle = (
        getattr(module, node.direction + suffix, None)
        if suffix
        else getattr(module, node.direction)
    )
    if oracle is None:
        return {}
    fields: dict[str, object] = {name: _shaped(node, array) for name, array in arrays.items()}
    fields |= {name: _setting(name, number) for name, number in node.settings.items()}
    wanted = inspect.signature(oracle).parameters
    with np.errstate(all="ignore"):
        return oracle(**{name: field for name, field in fields.items() if name in wanted})


def _shaped(node: Node, array: Stored) -> Stored:
    """Norms over heads see the same memory as rows of one head."""
    if node.op == "rms_norm" and array.ndim == 2:
        return array.reshape(-1, node.dims["C"])
    return array


def _setting(name: str, number: int | float) -> int | float:
    return (
        float(np.float32(number))
        if isinstance(number, float) and name not in _WIDE_SETTINGS
        else number
    )


def _widened(value: Value, array: Stored) -> Stored:
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array.copy()
    if wide.shape != value.shape:
        raise MissingBufferError(
            f"[executor] '{value.name}' has shape {value.shape}; got {wide.shape}"
        )
    return wide
