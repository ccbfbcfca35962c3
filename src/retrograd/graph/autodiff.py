"""Reverse-mode differentiation as a graph transform, by each op's gradient rule."""

from collections.abc import Mapping

from retrograd.errors import InternalError
from retrograd.graph.builder import Builder
from retrograd.graph.graph import Graph, Node, Role, Value
from retrograd.ops import OPS
from retrograd.ops.op import Setting, Spec


def differentiate(graph: Graph, seeds: Mapping[str, str]) -> Graph:
    """Adds the backward pass of a forward graph.

    Args:
        graph: the forward graph. Every value of role PARAMETER receives a GRADIENT value named
            ``<name>.grad``,
            which the backward nodes accumulate into.
        seeds: name of an output -> name of the input value that is its cotangent.

    Returns:
        The graph with backward nodes appended in the MICRO phase.
    """
    return _Differentiator(graph, seeds).run()


class _Differentiator:
    def __init__(self, graph: Graph, seeds: Mapping[str, str]) -> None:
        self.forward = graph
        self.builder = Builder(graph)
        self.active = _active_values(graph)
        self.cotangents: dict[int, Value] = {
            graph.outputs[output]: graph.value(seed) for output, seed in seeds.items()
        }
        self.accumulators: dict[int, Value] = {}

    def run(self) -> Graph:
        for value in self.forward.values:
            if value.role is Role.PARAMETER:
                grad = self.builder.add_value(
                    f"{value.name}.grad", value.shape, "f32", Role.GRADIENT
                )
                self.accumulators[value.id] = grad
        for node in reversed(self.forward.nodes):
            if not self.active.isdisjoint(node.writes) and any(
                v in self.cotangents for v in node.writes
            ):
                self._back(node)
        return self.builder.build()

    def _back(self, node: Node) -> None:
        vjp = OPS[node.op].vjp
        if vjp is None:
            raise InternalError(
                "autodiff",
                "every op on the path to a parameter has a gradient rule",
                node.op,
                "report this",
            )
        vjp(_NodeTape(self, node))


def _active_values(graph: Graph) -> set[int]:
    """Values that depend on a parameter: the only ones a gradient has to reach."""
    active = {v.id for v in graph.values if v.role is Role.PARAMETER}
    for node in graph.nodes:
        if not active.isdisjoint(node.reads):
            active.update(node.writes)
    return active


class _NodeTape:
    """The tape of one forward node (see :class:`retrograd.ops.op.Tape`)."""

    def __init__(self, owner: _Differentiator, node: Node) -> None:
        self._owner = owner
        self._node = node

    def _id(self, name: str) -> int:
        return self._node.inputs[name] if name in self._node.inputs else self._node.outputs[name]

    def value(self, name: str) -> Value:
        return self._owner.builder.values[self._id(name)]

    def has(self, name: str) -> bool:
        return name in self._node.inputs

    def setting(self, name: str) -> Setting:
        return self._node.settings[name]

    def cotangent(self, output: str) -> Value:
        return self._owner.cotangents[self._node.outputs[output]]

    def wants(self, name: str) -> bool:
        return self._node.inputs[name] in self._owner.active

    def take(self, name: str) -> Value | None:
        value = self._owner.cotangents.get(self._node.inputs[name])
        # A cotangent that two inputs share (the two sides of an add) must stay as it is for the
        # other side; handing
        # it over as an addend is still right, because an addend's buffer is reused only when nobody
        # reads it later.
        self._owner.cotangents.pop(self._node.inputs[name], None)
        return value

    def add(self, name: str, cotangent: Spec) -> None:
        key = self._node.inputs[name]
        value = _as_value(cotangent)
        earlier = self._owner.cotangents.get(key)
        if earlier is not None:
            value = self._owner.builder.emit(
                "add", {"a": earlier, "b": value}, label=f"{self._node.label}.grad"
            )["y"]
        self._owner.cotangents[key] = value

    def accumulator(self, name: str) -> Value:
        return self._owner.accumulators[self._node.inputs[name]]

    def emit(
        self,
        direction: str,
        inputs: Mapping[str, Spec | None],
        *,
        settings: Mapping[str, Setting] | None = None,
        into: Mapping[str, Spec] | None = None,
    ) -> dict[str, Value]:
        return self._owner.builder.emit(
            self._node.op,
            {n: None if v is None else _as_value(v) for n, v in inputs.items()},
            direction=direction,
            settings=settings,
            into={n: _as_value(v) for n, v in (into or {}).items()},
            label=f"{self._node.label}.grad",
        )


def _as_value(spec: Spec) -> Value:
    if not isinstance(spec, Value):
        raise InternalError(
            "autodiff",
            "gradient rules pass on the values they were given",
            type(spec),
            "report this",
        )
    return spec
