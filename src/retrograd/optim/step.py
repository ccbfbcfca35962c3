"""The optimizer step as graph phases: zero the gradients, find their norm, update."""

from retrograd.config.options import OptimizerOptions
from retrograd.graph import Builder, Graph, Phase, Role, Value
from retrograd.ops.sum_squares import chunks
from retrograd.optim.adamw import AdamW
from retrograd.optim.sgd import Sgd

NORM, CLIP, SUMS = "clip.norm", "clip.scale", "clip.sums"
DECAYED, PLAIN = "settings.decayed", "settings.plain"

Optimizer = AdamW | Sgd
OPTIMIZERS: dict[str, type[AdamW] | type[Sgd]] = {"adamw": AdamW, "sgd": Sgd}


def make_optimizer(options: OptimizerOptions) -> Optimizer:
    """The optimizer that the options name."""
    return OPTIMIZERS[options.name](options)


def add_step(graph: Graph, optimizer: Optimizer) -> Graph:
    """Puts the BEGIN phase before, and the NORM and UPDATE phases after, a graph with gradients.

    Decoupled decay applies to parameters with two dimensions; vectors use settings without it.
    """
    pairs = trained(graph)
    builder = Builder(graph)
    forward_and_backward, builder.nodes = builder.nodes, []
    builder.phase = Phase.BEGIN
    for _, gradient in pairs:
        builder.emit(
            "fill", {}, settings={"value": 0.0}, into={"y": gradient}, label=f"{gradient.name}.zero"
        )
    builder.nodes += forward_and_backward
    clip = _add_norm(builder, [g for _, g in pairs], optimizer.options.max_grad_norm)
    builder.phase = Phase.UPDATE
    settings = {
        name: builder.add_value(name, (optimizer.n_settings,), "f32", Role.INPUT)
        for name in (DECAYED, PLAIN)
    }
    for parameter, gradient in pairs:
        chosen = settings[DECAYED if len(parameter.shape) > 1 else PLAIN]
        optimizer.emit(builder, parameter, gradient, chosen, clip)
    return builder.build()


def trained(graph: Graph) -> list[tuple[Value, Value]]:
    """Parameters with their gradient buffers, in the order of the graph."""
    by_name = {v.name: v for v in graph.values if v.role is Role.GRADIENT}
    return [(v, by_name[f"{v.name}.grad"]) for v in graph.values if v.role is Role.PARAMETER]


def norm_slices(pairs: list[tuple[Value, Value]]) -> list[tuple[str, int, int]]:
    """Parameter name and range of its chunk sums, for naming the tensor of a bad norm."""
    slices: list[tuple[str, int, int]] = []
    begin = 0
    for parameter, gradient in pairs:
        count = chunks(gradient.n_bytes // 4)
        slices.append((parameter.name, begin, begin + count))
        begin += count
    return slices


def _add_norm(builder: Builder, gradients: list[Value], max_norm: float) -> Value:
    builder.phase = Phase.NORM
    total = sum(chunks(g.n_bytes // 4) for g in gradients)
    sums = builder.add_value(SUMS, (total,), "f64", Role.STATE)
    begin = 0
    for gradient in gradients:
        count = chunks(gradient.n_bytes // 4)
        part = builder.add_view(f"{SUMS}.{gradient.name}", sums, begin * 8, (count,))
        builder.emit(
            "sum_squares", {"g": gradient}, into={"sums": part}, label=f"{gradient.name}.norm"
        )
        begin += count
    norm = builder.add_value(NORM, (1,), "f64", Role.STATE)
    scale = builder.add_value(CLIP, (1,), "f32", Role.STATE)
    fields = {"norm": norm, "scale": scale}
    return builder.emit(
        "clip", {"sums": sums}, settings={"max_norm": max_norm}, into=fields, label="clip"
    )["scale"]
