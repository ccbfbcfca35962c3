"""Any graph on a device, one launch at a time on host arrays, with every intermediate value kept.

It shares the kernels with the compiled program and nothing else: no memory plan, no in-place reuse
of activations, no bound argument structs. Equal bits between the two show that planning and binding
change nothing; a gap to the oracle is attributed here to the node where it appears.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanes.ceilings import ceiling
from lanes.comparator import distances
from lanes.oracle_executor import evaluate
from retrograd.backends import Device
from retrograd.graph import Graph, Node, Phase, Role, Value
from retrograd.ops import OPS
from retrograd.runtime.launch import launch
from retrograd.runtime.program import row_of

Stored = NDArray[np.generic]
_DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32}


@dataclass(frozen=True)
class NodeGap:
    """Distance between one launch and the oracle on the same inputs.

    Attributes:
        row_id: kernel row of the node.
        label: the node's label in the graph.
        field: output with the largest distance.
        steps: that distance.
        ceiling: derived ceiling of this node's shape.
    """

    row_id: str
    label: str
    field: str
    steps: float
    ceiling: float

    @property
    def beyond(self) -> bool:
        """Whether the launch is further away than a right kernel can be."""
        return not self.steps <= self.ceiling


def run_nodes(
    graph: Graph,
    device: Device,
    buffers: Mapping[str, Stored],
    phases: Iterable[Phase],
    *,
    decoded: Mapping[str, NDArray[np.float64]] | None = None,
) -> tuple[dict[str, Stored], list[NodeGap]]:
    """Launches every node of the phases.

    Args:
        buffers: arrays by value name as the device stores them; weights as bytes. Nothing in it is
            modified.
        decoded: float64 values of the weights; when given, every node is also compared with its
            oracle.

    Returns:
        Every value by name, and one gap per node (none without ``decoded``).
    """
    arrays = {v.id: _fresh(v, buffers) for v in graph.values if v.view is None}
    gaps: list[NodeGap] = []
    for phase in phases:
        for node in graph.phase(phase):
            before = _bound(graph, node, arrays, copies=True)
            _launch(graph, node, device, arrays)
            if decoded is not None:
                gaps.append(
                    _gap(
                        graph,
                        node,
                        device.name,
                        before,
                        _bound(graph, node, arrays, copies=False),
                        decoded,
                    )
                )
    return {graph.values[vid].name: array for vid, array in arrays.items()}, gaps


def _fresh(value: Value, buffers: Mapping[str, Stored]) -> Stored:
    if value.name in buffers:
        return np.array(buffers[value.name], copy=True)
    if value.role is Role.WEIGHT:
        raise KeyError(value.name)
    return np.zeros(value.shape, dtype=_DTYPES[value.dtype])


def _array(graph: Graph, vid: int, arrays: Mapping[int, Stored]) -> Stored:
    value = graph.values[vid]
    if value.view is None:
        return arrays[vid]
    base, offset = value.view
    flat = arrays[base].reshape(-1).view(np.uint8)[offset : offset + value.n_bytes]
    return flat.view(_DTYPES[value.dtype]).reshape(value.shape)


def _bound(
    graph: Graph, node: Node, arrays: Mapping[int, Stored], *, copies: bool
) -> dict[str, Stored]:
    fields = {
        name: _array(graph, vid, arrays) for name, vid in {**node.outputs, **node.inputs}.items()
    }
    return {name: array.copy() for name, array in fields.items()} if copies else fields


def _launch(graph: Graph, node: Node, device: Device, arrays: Mapping[int, Stored]) -> None:
    fields: dict[str, np.ndarray | int | float | None] = {**node.dims, **node.settings}
    fields |= {
        name: _array(graph, vid, arrays) for name, vid in {**node.inputs, **node.outputs}.items()
    }
    kernel = OPS[node.op].kernels[node.direction]
    if kernel.scratch is not None:
        stored = graph.values[node.inputs[kernel.weight]].dtype if kernel.weight else "f32"
        n_bytes = kernel.scratch(node.dims, node.settings, device.threads, stored)
        fields["scratch"] = np.empty(max(n_bytes, 8) // 8 + 1, dtype=np.float64)
    launch(device, row_of(graph, node, device.name), **fields)


def _gap(
    graph: Graph,
    node: Node,
    backend: str,
    before: Mapping[str, Stored],
    after: Mapping[str, Stored],
    decoded: Mapping[str, NDArray[np.float64]],
) -> NodeGap:
    wide: dict[str, Stored] = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in before.items()
    }
    wide |= {
        name: decoded[graph.values[vid].name]
        for name, vid in node.inputs.items()
        if graph.values[vid].name in decoded
    }
    want, sizes = evaluate(node, wide), evaluate(node, wide, suffix="_magnitude")
    worst, field = -1.0, ""
    for name in node.outputs:
        steps = _worst(after[name], want[name], sizes.get(name))
        if not steps <= worst:
            worst, field = steps, name
    limit = ceiling(node.op, node.direction, {**node.dims, **node.settings})
    return NodeGap(row_of(graph, node, backend), node.label, field, worst, limit)


def _worst(got: Stored, want: Stored, magnitude: Stored | None) -> float:
    if got.size == 0:
        return 0.0
    measure: Callable[..., NDArray[np.float64]] = distances
    size = None if magnitude is None else magnitude.reshape(got.shape)
    return float(measure(got, want.reshape(got.shape), magnitude=size).max())
