"""From a graph to launches: preflight, memory, argument structs, runs without the GIL."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from retrograd.admission import Admitted, admit_all
from retrograd.errors import InternalError
from retrograd.graph import Graph, Node, Phase, Plan, Role, Value, plan, verify
from retrograd.ops import OPS
from retrograd.ops.op import dtype_slot
from retrograd.rows import row_id
from retrograd.runtime.launch import layout_of, pack
from retrograd.runtime.store import NUMPY_DTYPES, Store

if TYPE_CHECKING:
    from retrograd import _native


def row_of(graph: Graph, node: Node, backend: str) -> str:
    """The kernel row a node runs on."""
    kernel = OPS[node.op].kernels[node.direction]
    inputs = {name: graph.values[vid] for name, vid in node.inputs.items()}
    return row_id(node.op, node.direction, dtype_slot(kernel, inputs), backend)


def rows_of(graph: Graph, backend: str) -> tuple[str, ...]:
    """The kernel row of every node, in program order."""
    return tuple(row_of(graph, node, backend) for node in graph.nodes)


class Program:
    """A compiled graph on one device.

    Compiling verifies the graph, asks admission for every row, plans memory, and only then
    allocates. The arena is
    shared with the store's other programs and may move when a larger one is compiled; a run binds
    to where it is.

    Attributes:
        graph: the verified graph.
        plan: its memory plan.
        inputs: what the host fills, by name.
        admitted: admission's answer by row id.
    """

    def __init__(self, graph: Graph, store: Store) -> None:
        self.graph = verify(graph)
        self.store = store
        device = store.device
        self.rows = rows_of(graph, device.name)
        self.admitted: Mapping[str, Admitted] = admit_all(self.rows, device=device)
        self.layouts = tuple(layout_of(device, row) for row in self.rows)
        self.plan: Plan = plan(graph, threads=device.threads)
        for value in graph.values:
            if value.role is Role.INPUT:
                store.ensure(_sized(value))
            elif value.role is Role.WEIGHT:
                store.address(value.name)
            elif value.role is not Role.ACTIVATION and value.view is None:
                store.ensure(value)
        self.inputs = {value.name: value for value in graph.values if value.role is Role.INPUT}
        self._ranges = _phase_ranges(graph)
        self._bound_at = -1
        self._program: _native.Program | None = None
        store.arena(self.plan.arena_bytes)

    def run(self, phase: Phase) -> None:
        """Runs one phase, without the GIL."""
        self._bind().run(*self._ranges[phase])

    def profile(self, phase: Phase) -> list[tuple[Node, float]]:
        """Runs one phase and returns the seconds of each node."""
        begin, end = self._ranges[phase]
        seconds = self._bind().profile(begin, end)
        return list(zip(self.graph.nodes[begin:end], seconds, strict=True))

    def write(self, name: str, data: np.ndarray) -> None:
        """Fills an input."""
        self.store.write(_sized(self.inputs[name]).name, data)

    def read(self, name: str) -> np.ndarray:
        """A host copy of an output or a persistent value.

        Outputs in the arena hold until the next run on the store.
        """
        value = self._find(name)
        if value.role is not Role.ACTIVATION:
            return self.store.read(value)
        out = np.empty(value.shape, NUMPY_DTYPES[value.dtype])
        if out.nbytes:
            address = self.store.arena(self.plan.arena_bytes) + self.plan.offsets[value.id]
            self.store.device.stream.to_host(address, out)
        return out

    def _find(self, name: str) -> Value:
        if name in self.graph.outputs:
            return self.graph.values[self.graph.outputs[name]]
        value = self.graph.value(name)
        if value.role is Role.ACTIVATION:
            raise InternalError(
                "program",
                "the host reads outputs and persistent values",
                name,
                "name it as an output",
            )
        return value

    def _bind(self) -> "_native.Program":
        from retrograd import _native

        arena = self.store.arena(self.plan.arena_bytes)
        if self._program is None or self._bound_at != arena:
            packed = [self._pack(index, node, arena) for index, node in enumerate(self.graph.nodes)]
            indices = [layout.index for layout in self.layouts]
            self._program = _native.Program(self.store.device.stream, indices, packed)
            self._bound_at = arena
        return self._program

    def _pack(self, index: int, node: Node, arena: int) -> bytes:
        fields: dict[str, int | float] = {**node.dims, **node.settings}
        for name, vid in (*node.inputs.items(), *node.outputs.items()):
            fields[name] = self._address(self.graph.values[vid], arena)
        if index in self.plan.scratch:
            fields["scratch"] = arena + self.plan.scratch[index]
        return pack(self.layouts[index], self.rows[index], fields)

    def _address(self, value: Value, arena: int) -> int:
        if value.view is not None:
            base, offset = value.view
            return self._address(self.graph.values[base], arena) + offset
        if value.role is Role.ACTIVATION:
            return arena + self.plan.offsets[value.id]
        return self.store.address(_sized(value).name)


def _sized(value: Value) -> Value:
    """An input under a name that tells its size: programs of several sizes share a store."""
    if value.role is not Role.INPUT:
        return value
    return replace(value, name=f"{value.name}[{value.n_bytes}]")


def _phase_ranges(graph: Graph) -> dict[Phase, tuple[int, int]]:
    ranges: dict[Phase, tuple[int, int]] = {}
    begin = 0
    for phase in Phase:
        end = begin + len(graph.phase(phase))
        ranges[phase] = (begin, end)
        begin = end
    return ranges
