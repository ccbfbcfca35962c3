"""Builds graphs: shapes come from the ops' rules, and a node is checked as it is added."""

from collections.abc import Mapping

from retrograd.errors import InternalError
from retrograd.graph.graph import Graph, Node, Phase, Role, Value
from retrograd.ops import OPS
from retrograd.ops.op import Kernel, Setting, Spec


class Builder:
    """A graph under construction.

    Attributes:
        values: values so far, indexed by id.
        nodes: nodes so far, in program order.
        outputs: values the host reads, by name.
        phase: the phase new nodes belong to.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self.values: list[Value] = list(graph.values) if graph else []
        self.nodes: list[Node] = list(graph.nodes) if graph else []
        self.outputs: dict[str, int] = dict(graph.outputs) if graph else {}
        self.phase = Phase.MICRO

    def add_value(self, name: str, shape: tuple[int, ...], dtype: str, role: Role) -> Value:
        value = Value(len(self.values), name, tuple(shape), dtype, role)
        self.values.append(value)
        return value

    def add_view(self, name: str, base: Value, offset: int, shape: tuple[int, ...]) -> Value:
        """A slice of another value's buffer, ``offset`` bytes in, of the same dtype."""
        value = Value(
            len(self.values), name, tuple(shape), base.dtype, base.role, (base.id, offset)
        )
        if offset < 0 or offset + value.n_bytes > base.n_bytes:
            raise InternalError(
                "graph",
                "a view lies inside its base",
                (offset, value.n_bytes, base.n_bytes),
                "report this",
            )
        self.values.append(value)
        return value

    def emit(
        self,
        op: str,
        inputs: Mapping[str, Value | None],
        *,
        direction: str = "forward",
        settings: Mapping[str, Setting] | None = None,
        into: Mapping[str, Value] | None = None,
        drop: frozenset[str] = frozenset(),
        label: str = "",
    ) -> dict[str, Value]:
        """Adds a node and returns its outputs by field name.

        Args:
            inputs: values by field name; None or absent for an optional field.
            into: outputs that are written in place into an existing persistent value.
            drop: optional outputs that nobody needs.
        """
        kernel = OPS[op].kernels[direction]
        bound = {name: value for name in kernel.inputs if (value := inputs.get(name)) is not None}
        given = dict(settings or {})
        self._check_fields(op, kernel, bound, given)
        seen: dict[str, Spec] = {**bound, **(into or {})}
        inferred = kernel.infer(seen, given)
        outputs: dict[str, Value] = {}
        for name, (shape, dtype) in inferred.outputs.items():
            if name in drop:
                continue
            target = (into or {}).get(name)
            if target is None:
                target = self.add_value(
                    f"{label or op}.{name}#{len(self.nodes)}", shape, dtype, Role.ACTIVATION
                )
            elif (target.shape, target.dtype) != (shape, dtype):
                raise InternalError(
                    op,
                    f"'{name}' is {dtype} of shape {shape}",
                    (target.dtype, target.shape),
                    "report this",
                )
            outputs[name] = target
        self.nodes.append(
            Node(
                op,
                direction,
                {n: v.id for n, v in bound.items()},
                {n: v.id for n, v in outputs.items()},
                inferred.dims,
                given,
                self.phase,
                label or op,
            )
        )
        return outputs

    def build(self) -> Graph:
        return Graph(tuple(self.values), tuple(self.nodes), dict(self.outputs))

    @staticmethod
    def _check_fields(
        op: str, kernel: Kernel, bound: Mapping[str, Value], settings: Mapping[str, Setting]
    ) -> None:
        missing = [n for n in kernel.inputs if n not in bound and n not in kernel.optional]
        if missing or set(settings) != set(kernel.settings):
            got = (sorted(bound), sorted(settings))
            raise InternalError(
                op,
                f"fields {kernel.inputs} and settings {kernel.settings} are given",
                got,
                "report this",
            )
