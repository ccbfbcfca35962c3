"""Lane `model`.

Whole steps of the tiny models against the float64 executor on the same graph, node by node.
"""

from pathlib import Path

import numpy as np
import pytest

from lanes.comparator import bitwise_equal
from lanes.node_executor import run_nodes
from lanes.oracle_executor import run_graph
from lanes.tiny_model import VARIANTS, Model, load, oracle_loss, oracle_loss_and_gradients
from lanes.tolerances import bound_of, read
from lanes.whole import model_gradients, model_loss
from retrograd.backends import open_device
from retrograd.graph import Phase

STEP = (Phase.BEGIN, Phase.MICRO)
SEEDS = {"fast": (0,), "full": (0, 1, 2, 3)}
# One fault in each kind of node, met only in backward or only through a norm, a rotation, a gate, a
# group of heads.
FAULTS = (
    "rms_norm.backward.f32.cpu:drop_projection",
    "rope.backward.f32.cpu:forward_angle",
    "swiglu.backward.f32.cpu:drop_slope_term",
    "attention.backward.f32.cpu:wrong_group",
    "matmul.backward.f32.cpu:short_inner",
    "linear_cross_entropy.forward.f32.cpu:short_tile",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where model files of a test go."""
    return tmp_path


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_every_gradient(name: str, folder: Path, plan: str) -> None:
    """Against the oracle executor, within the recorded bounds."""
    table = read()
    for seed in SEEDS[plan]:
        model = load(name, folder, seed=seed)
        loss, _ = model_loss(model)
        gradients, _ = model_gradients(model)
        assert loss.max() <= bound_of(f"whole.loss.{name}", table)
        assert gradients.max() <= bound_of(f"whole.gradients.{name}", table)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_gradient_is_there_and_not_zero(name: str, folder: Path) -> None:
    """A comparison of zeros with zeros would hold for a model that learns nothing."""
    model = load(name, folder, seed=0)
    _, gradients = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    assert sorted(gradients) == sorted(model.parameters)
    assert [n for n, g in gradients.items() if not np.abs(g).max() > 1e-6] == []


@pytest.mark.parametrize("name", VARIANTS)
def test_compiled_program_equals_single_launches(name: str, folder: Path) -> None:
    """Memory plan, in-place reuse and bound arguments change no bit of a loss or a gradient."""
    model = load(name, folder, seed=0)
    loss, gradients = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    values, _ = run_nodes(model.graph, model.trainer.session.device, model.stored, STEP)
    nll = values[model.graph.values[model.graph.outputs["nll"]].name]
    assert float(nll.sum(dtype=np.float64)) / model.step.n_supervised == loss
    for parameter, gradient in gradients.items():
        verdict = bitwise_equal(gradient, values[f"{parameter}.grad"])
        assert verdict.holds, f"{parameter}: {verdict.reason}"


@pytest.mark.parametrize("name", VARIANTS)
def test_every_node_holds_its_row_bound(name: str, folder: Path) -> None:
    """Each launch against the oracle on the same inputs: a model's own activations as a corpus."""
    model, table = load(name, folder, seed=0), read()
    _, gaps = run_nodes(
        model.graph, model.trainer.session.device, model.stored, STEP, decoded=model.decoded
    )
    assert len(gaps) == sum(len(model.graph.phase(phase)) for phase in STEP)
    wrong = [gap for gap in gaps if gap.beyond or not gap.steps <= bound_of(gap.row_id, table)]
    assert not wrong, "\n".join(str(gap) for gap in wrong)


@pytest.mark.parametrize("fault", FAULTS)
def test_gap_is_attributed_to_its_node(fault: str, folder: Path) -> None:
    """With one kernel broken, the nodes on that row are named, and no other."""
    model = load("qwen2-f32", folder, seed=0)
    device = open_device("cpu", threads=1, faults=True)
    device.set_fault(fault)
    _, gaps = run_nodes(model.graph, device, model.stored, STEP, decoded=model.decoded)
    beyond = [gap for gap in gaps if gap.beyond]
    assert {gap.row_id for gap in beyond} == {fault.split(":")[0]}


@pytest.mark.parametrize("name", VARIANTS)
def test_central_differences_confirm_the_oracle(name: str, folder: Path, plan: str) -> None:
    """The oracle's loss along one random direction per parameter.

    Its slope is the oracle's gradient.

    Two step sizes, extrapolated: what is left is of order h^4, and rounding of the loss over h.
    """
    model = load(name, folder, seed=1)
    _, gradients = oracle_loss_and_gradients(model)
    rng = np.random.default_rng(1)
    chosen = (
        model.parameters
        if plan == "full"
        else [n for n in model.parameters if n.startswith("blk.0.")]
    )
    for parameter in chosen:
        direction = rng.standard_normal(gradients[parameter].shape)
        slope = float(np.sum(gradients[parameter] * direction))
        size = float(np.linalg.norm(gradients[parameter]) * np.linalg.norm(direction))
        coarse, fine = (_difference(model, parameter, direction, h) for h in (2e-4, 1e-4))
        assert abs((4 * fine - coarse) / 3 - slope) <= 1e-8 * size, parameter


def _difference(model: Model, parameter: str, direction: np.ndarray, h: float) -> float:
    losses: list[float] = []
    for sign in (1.0, -1.0):
        moved = np.asarray(model.stored[parameter], dtype=np.float64) + sign * h * direction
        values = run_graph(model.graph, {**model.wide, parameter: moved}, STEP)
        losses.append(oracle_loss(model.graph, values, model.step))
    return (losses[0] - losses[1]) / (2 * h)
