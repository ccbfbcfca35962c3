"""The verifier: run after every rewrite, it recomputes what must hold of a graph."""

from retrograd.errors import InternalError
from retrograd.graph.graph import Graph, Node, Role
from retrograd.ops import OPS

_WRITABLE = frozenset({Role.ACTIVATION, Role.PARAMETER, Role.GRADIENT, Role.STATE})


def verify(graph: Graph) -> Graph:
    """Checks shapes, dtypes, roles and order; returns the graph.

    Rules: node fields match their kernel's signature; inferred shapes and dtypes equal the values';
        an activation is
    written exactly once and before it is read; inputs, weights and constants are never written;
    phases do not run
    backwards and an activation does not cross from one phase to another; outputs name existing
    values.

    Raises:
        InternalError: a rule is broken; the message names the node.
    """
    written: dict[int, int] = {}
    phase = 0
    for index, node in enumerate(graph.nodes):
        _check_signature(graph, node)
        if node.phase.value < phase:
            _fail(node, "phases run in order", node.phase.name)
        phase = node.phase.value
        _check_reads(graph, node, written)
        _check_writes(graph, node, written)
        written.update(dict.fromkeys(node.writes, index))
    for name, vid in graph.outputs.items():
        if graph.values[vid].role is Role.ACTIVATION and vid not in written:
            raise InternalError("graph", "an output is written", name, "report this")
    return graph


def _check_reads(graph: Graph, node: Node, written: dict[int, int]) -> None:
    for name, vid in node.inputs.items():
        if graph.values[vid].role is not Role.ACTIVATION:
            continue
        if vid not in written:
            _fail(node, "an activation is written before it is read", name)
        if graph.nodes[written[vid]].phase is not node.phase:
            _fail(node, "an activation stays inside its phase", name)


def _check_writes(graph: Graph, node: Node, written: dict[int, int]) -> None:
    for name, vid in node.outputs.items():
        value = graph.values[vid]
        if value.role not in _WRITABLE:
            _fail(node, f"a value of role {value.role.value} is never written", name)
        if value.role is Role.ACTIVATION and vid in written:
            _fail(node, "an activation is written once", name)


def _check_signature(graph: Graph, node: Node) -> None:
    kernel = OPS[node.op].kernels[node.direction]
    required = set(kernel.inputs) - kernel.optional
    if not required <= set(node.inputs) <= set(kernel.inputs) or set(node.settings) != set(
        kernel.settings
    ):
        _fail(
            node,
            "fields and settings match the kernel's signature",
            (sorted(node.inputs), sorted(node.settings)),
        )
    seen = {n: graph.values[v] for n, v in {**node.outputs, **node.inputs}.items()}
    inferred = kernel.infer(seen, node.settings)
    if dict(inferred.dims) != dict(node.dims):
        _fail(node, "dimensions follow from the inputs", dict(node.dims))
    for name, vid in node.outputs.items():
        value = graph.values[vid]
        if (value.shape, value.dtype) != inferred.outputs[name]:
            _fail(
                node,
                f"'{name}' has the inferred shape and dtype {inferred.outputs[name]}",
                (value.shape, value.dtype),
            )


def _fail(node: Node, rule: str, got: object) -> None:
    raise InternalError(
        "graph", rule, got, f"report this; node {node.op}.{node.direction} '{node.label}'"
    )
