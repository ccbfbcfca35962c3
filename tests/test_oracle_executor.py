"""The oracle executor and the node executor on small graphs made by hand."""

import numpy as np
import pytest

from lanes.node_executor import run_nodes
from lanes.oracle_executor import MissingBufferError, run_graph
from lanes.trial import device
from retrograd.graph import Builder, Graph, Phase, Role, differentiate


def _graph() -> Graph:
    """y = x w^T with w trained; its gradient; chunk sums into a view; a fill at the start."""
    b = Builder()
    x = b.add_value("x", (3, 2), "f32", Role.INPUT)
    w = b.add_value("w", (4, 2), "f32", Role.PARAMETER)
    b.add_value("dy", (3, 4), "f32", Role.INPUT)
    b.outputs["y"] = b.emit("matmul", {"x": x, "w": w}, settings={"alpha": 2.0}, label="y")["y"].id
    graph = differentiate(b.build(), {"y": "dy"})
    b = Builder(graph)
    nodes, b.nodes = b.nodes, []
    grad = graph.value("w.grad")
    b.phase = Phase.BEGIN
    b.emit("fill", {}, settings={"value": 0.0}, into={"y": grad}, label="zero")
    b.nodes += nodes
    b.phase = Phase.NORM
    sums = b.add_value("sums", (3,), "f64", Role.STATE)
    part = b.add_view("sums.w", sums, 8, (1,))
    b.emit("sum_squares", {"g": grad}, into={"sums": part}, label="norm")
    b.phase = Phase.UPDATE
    settings, clip = (
        b.add_value(n, (size,), "f32", Role.INPUT) for n, size in (("settings", 3), ("clip", 1))
    )
    fields = {"g": grad, "settings": settings, "clip": clip}
    b.emit("sgd", fields, direction="step", settings={"nesterov": 0}, into={"x": w}, label="step")
    return b.build()


def _buffers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, w, dy = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((3, 2), (4, 2), (3, 4)))
    settings = np.array([0.5, 0.0, 1.0], np.float32)
    return {"x": x, "w": w, "dy": dy, "settings": settings, "clip": np.ones(1, np.float32)}


ALL = tuple(Phase)


def test_a_step_by_hand() -> None:
    buffers = _buffers()
    x, w, dy = (buffers[n].astype(np.float64) for n in ("x", "w", "dy"))
    values = run_graph(_graph(), {**buffers, "sums": np.array([7.0, 7.0, 7.0])}, ALL)
    grad = 2 * dy.T @ x
    assert np.array_equal(values["w.grad"], grad)
    assert values["sums"].tolist() == [
        7.0,
        float((grad**2).sum()),
        7.0,
    ]  # the view alone is written
    assert np.array_equal(values["w"], w - 0.5 * grad)
    assert np.array_equal(buffers["w"], w)  # the caller's arrays stay as they were


def test_gradients_accumulate_over_micro_batches() -> None:
    """Two micro phases after one beginning give twice the gradient."""
    once = run_graph(_graph(), _buffers(), (Phase.BEGIN, Phase.MICRO))
    twice = run_graph(_graph(), _buffers(), (Phase.BEGIN, Phase.MICRO, Phase.MICRO))
    assert np.array_equal(twice["w.grad"], 2 * np.asarray(once["w.grad"], dtype=np.float64))
    dirty = {**_buffers(), "w.grad": np.full((4, 2), 9.0)}
    assert np.array_equal(
        run_graph(_graph(), dirty, (Phase.BEGIN, Phase.MICRO))["w.grad"], once["w.grad"]
    )
    kept = np.asarray(run_graph(_graph(), dirty, (Phase.MICRO,))["w.grad"])
    assert np.array_equal(kept, np.asarray(once["w.grad"], dtype=np.float64) + 9)


def test_every_node_is_shown_in_order() -> None:
    seen: list[tuple[str, list[str], list[str]]] = []
    run_graph(
        _graph(), _buffers(), ALL, on_node=lambda n, i, o: seen.append((n.op, sorted(i), sorted(o)))
    )
    assert [op for op, _, _ in seen] == ["fill", "matmul", "matmul", "sum_squares", "sgd"]
    assert seen[2][1:] == (["c", "dw", "dy", "x"], ["dw"])


def test_unfilled_values_are_named() -> None:
    buffers = _buffers()
    del buffers["dy"]
    with pytest.raises(MissingBufferError, match="'dy'"):
        run_graph(_graph(), buffers, ALL)
    with pytest.raises(MissingBufferError, match="shape"):
        run_graph(_graph(), {**_buffers(), "x": np.zeros((2, 2), np.float32)}, ALL)


def test_single_launches_agree_on_a_lattice() -> None:
    """Whole numbers: device and oracle must be equal in every value."""
    graph, buffers = _graph(), _buffers()
    want = run_graph(graph, buffers, ALL)
    got, gaps = run_nodes(graph, device(1, None), {**buffers, "sums": np.zeros(3)}, ALL, decoded={})
    for name, array in want.items():
        if name in got:
            assert np.array_equal(np.asarray(got[name], dtype=np.float64), array), name
    assert [gap.label for gap in gaps] == ["zero", "y", "y.grad", "norm", "step"]
    assert max(gap.steps for gap in gaps) == 0
