"""LoRA (arXiv:2106.09685) as a graph rewrite: y = x W^T + scale (dropout(x) A^T) B^T."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrograd.graph.builder import Builder
from retrograd.graph.graph import Graph, Node, Role, Value
from retrograd.ops import OPS


@dataclass(frozen=True)
class Adapter:
    """What the rewrite inserts on one product.

    Attributes:
        rank: r; factors are ``<weight>.lora_a`` (r, in) and ``<weight>.lora_b`` (out, r).
        scale: factor of the low-rank product.
        dropout: settings of the dropout op on the product's input, or None for none.
        trained: factors are parameters rather than constants.
    """

    rank: int
    scale: float
    trained: bool
    dropout: Mapping[str, int | float] | None = None


def add_lora(graph: Graph, adapters: Mapping[str, Adapter]) -> Graph:
    """Rewrites every matmul whose weight's name is in ``adapters``.

    With dropout the graph must hold the inputs ``token_index`` and ``step``.
    """
    return _Rewrite(graph, adapters).run()


class _Rewrite:
    def __init__(self, graph: Graph, adapters: Mapping[str, Adapter]) -> None:
        self.graph = graph
        self.adapters = adapters
        self.builder = Builder()
        self.moved: dict[int, Value] = {}  # value of the old graph -> value of the new one

    def run(self) -> Graph:
        for value in self.graph.values:
            if value.role is not Role.ACTIVATION:
                self.moved[value.id] = self.builder.add_value(
                    value.name, value.shape, value.dtype, value.role
                )
        for node in self.graph.nodes:
            self._copy(node)
            adapter = self._adapter(node)
            if adapter is not None:
                self._adapt(node, adapter)
        self.builder.outputs = {
            name: self.moved[vid].id for name, vid in self.graph.outputs.items()
        }
        return self.builder.build()

    def _adapter(self, node: Node) -> Adapter | None:
        if (node.op, node.direction) != ("matmul", "forward"):
            return None
        return self.adapters.get(self.graph.values[node.inputs["w"]].name)

    def _copy(self, node: Node) -> None:
        self.builder.phase = node.phase
        into = {
            name: self.moved[vid]
            for name, vid in node.outputs.items()
            if self.graph.values[vid].role is not Role.ACTIVATION
        }
        inputs = {name: self.moved[vid] for name, vid in node.inputs.items()}
        out = self.builder.emit(
            node.op,
            inputs,
            direction=node.direction,
            settings=node.settings,
            into=into,
            drop=frozenset(OPS[node.op].kernels[node.direction].outputs) - node.outputs.keys(),
            label=node.label,
        )
        for name, vid in node.outputs.items():
            self.moved[vid] = out[name]

    def _adapt(self, node: Node, adapter: Adapter) -> None:
        w = self.graph.values[node.inputs["w"]]
        rows, columns = w.shape
        role = Role.PARAMETER if adapter.trained else Role.CONSTANT
        a = self.builder.add_value(f"{w.name}.lora_a", (adapter.rank, columns), "f32", role)
        b = self.builder.add_value(f"{w.name}.lora_b", (rows, adapter.rank), "f32", role)
        x = self.moved[node.inputs["x"]]
        if adapter.dropout is not None:
            fields = {
                "x": x,
                "token_index": self._named("token_index"),
                "step": self._named("step"),
            }
            x = self.builder.emit(
                "dropout", fields, settings=adapter.dropout, label=f"{w.name}.dropout"
            )["y"]
        middle = self.builder.emit(
            "matmul", {"x": x, "w": a}, settings={"alpha": 1.0}, label=a.name
        )["y"]
        base = self.moved[node.outputs["y"]]
        fields = {"x": middle, "w": b, "c": base}
        out = self.builder.emit("matmul", fields, settings={"alpha": adapter.scale}, label=b.name)[
            "y"
        ]
        self.moved[node.outputs["y"]] = out

    def _named(self, name: str) -> Value:
        return next(v for v in self.builder.values if v.name == name)
