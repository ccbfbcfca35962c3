"""Lane `model`.

Whole steps of the tiny models against the float64 executor on the same graph, node by node.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes.ceilings import CENTRAL_DIFFERENCE
from lanes.comparator import bitwise_equal
from lanes.node_executor import run_nodes
from lanes.observation import Observe, Tally, gap
from lanes.oracle_executor import run_graph
from lanes.registry import Need, Planned, lane
from lanes.tiny_model import VARIANTS, Model, load, oracle_loss, oracle_loss_and_gradients
from lanes.tolerances import bound_of, read
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
ATTRIBUTION = "model.attribution"
_ROW = "model.step."
Arrays = dict[str, NDArray[np.floating]]


def _variants(*cases: str, inputs: int = 0) -> Iterator[Planned]:
    return (Planned(f"{_ROW}{name}", case, "", inputs) for name in VARIANTS for case in cases)


def _compared(plan: str) -> Iterator[Planned]:
    return _variants("loss", "gradients", inputs=len(SEEDS[plan]))


def _present(_plan: str) -> Iterator[Planned]:
    return _variants("not-zero")


def _programs(_plan: str) -> Iterator[Planned]:
    return _variants("program")


def _nodes(_plan: str) -> Iterator[Planned]:
    return _variants("nodes")


def _slopes(_plan: str) -> Iterator[Planned]:
    return _variants("differences")


def _faults(_plan: str) -> Iterator[Planned]:
    return (Planned(ATTRIBUTION, fault) for fault in FAULTS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where model files of the lane go."""
    return tmp_path_factory.mktemp("models")


@cache
def _step(name: str, folder: Path, seed: int) -> tuple[Arrays, dict[str, NDArray[np.float64]]]:
    """Loss and gradients of the product and of the oracle executor, by name."""
    model = load(name, folder, seed=seed)
    got_loss, got = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    want_loss, want = oracle_loss_and_gradients(model)
    assert sorted(got) == sorted(want), "gradients are on one side only"
    loss = {"loss": np.array([got_loss], np.float32)}
    return {**loss, **got}, {"loss": np.array([want_loss]), **want}


@lane("model", rows=_compared, needs=(Need.DEVICE, Need.BOUNDS))
def test_step_is_within_its_bound(
    row: str, case: str, folder: Path, plan: str, observe: Observe
) -> None:
    """Loss and every gradient against the oracle executor, within the recorded bounds."""
    name = row.removeprefix(_ROW)
    bound, tally = bound_of(f"whole.{case}.{name}", read()), Tally()
    for seed in SEEDS[plan]:
        got, want = _step(name, folder, seed)
        tensors = [n for n in want if (n == "loss") == (case == "loss")]
        sizes = {n: np.full(want[n].shape, np.abs(want[n]).max(initial=0.0)) for n in tensors}
        tally.add(gap(got[n], want[n], magnitude=sizes[n]) for n in tensors)
    observe(tally, grade="bounded", bound=bound, seeds=SEEDS[plan])
    assert tally.errors().max_ulp <= bound


@lane("model", rows=_present, needs=(Need.DEVICE,))
def test_every_gradient_is_there_and_not_zero(
    row: str, case: str, folder: Path, observe: Observe
) -> None:
    """A comparison of zeros with zeros would hold for a model that learns nothing."""
    del case
    model = load(row.removeprefix(_ROW), folder, seed=0)
    _, gradients = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    flat = [n for n, g in gradients.items() if not np.abs(g).max() > 1e-6]
    observe.equal(len(gradients), len(flat), seeds=(0,))
    assert sorted(gradients) == sorted(model.parameters)
    assert flat == []


@lane("model", rows=_programs, needs=(Need.DEVICE,))
def test_compiled_program_equals_single_launches(
    row: str, case: str, folder: Path, observe: Observe
) -> None:
    """Memory plan, in-place reuse and bound arguments change no bit of a loss or a gradient."""
    del case
    model = load(row.removeprefix(_ROW), folder, seed=0)
    loss, gradients = model.trainer.loss_and_gradients(model.step.rows, model.step.labels)
    values, _ = run_nodes(model.graph, model.trainer.session.device, model.stored, STEP)
    nll = values[model.graph.values[model.graph.outputs["nll"]].name]
    verdicts = {n: bitwise_equal(g, values[f"{n}.grad"]) for n, g in gradients.items()}
    same_loss = float(nll.sum(dtype=np.float64)) / model.step.n_supervised == loss
    wrong = [f"{n}: {v.reason}" for n, v in verdicts.items() if not v.holds]
    differing = sum(int(v.worst) for v in verdicts.values()) + int(not same_loss)
    observe.equal(1 + sum(v.n for v in verdicts.values()), differing, seeds=(0,))
    assert same_loss
    assert wrong == []


@lane("model", rows=_nodes, needs=(Need.DEVICE, Need.BOUNDS))
def test_every_node_holds_its_row_bound(
    row: str, case: str, folder: Path, observe: Observe
) -> None:
    """Each launch against the oracle on the same inputs: a model's own activations as a corpus."""
    del case
    model, table = load(row.removeprefix(_ROW), folder, seed=0), read()
    _, gaps = run_nodes(
        model.graph, model.trainer.session.device, model.stored, STEP, decoded=model.decoded
    )
    wrong = [gap for gap in gaps if gap.beyond or not gap.steps <= bound_of(gap.row_id, table)]
    observe.equal(len(gaps), len(wrong), seeds=(0,))
    assert len(gaps) == sum(len(model.graph.phase(phase)) for phase in STEP)
    assert not wrong, "\n".join(str(gap) for gap in wrong)


@lane("model", rows=_faults, needs=(Need.FAULTS,))
def test_gap_is_attributed_to_its_node(row: str, case: str, folder: Path, observe: Observe) -> None:
    """With one kernel broken, the nodes on that row are named, and no other."""
    del row
    model = load("qwen2-f32", folder, seed=0)
    device = open_device("cpu", threads=1, faults=True)
    device.set_fault(case)
    _, gaps = run_nodes(model.graph, device, model.stored, STEP, decoded=model.decoded)
    beyond = {gap.row_id for gap in gaps if gap.beyond}
    broken = {case.split(":")[0]}
    observe.equal(len(gaps), len(beyond ^ broken), seeds=(0,))
    assert beyond == broken


@lane("model", rows=_slopes)
def test_central_differences_confirm_the_oracle(
    row: str, case: str, folder: Path, plan: str, observe: Observe
) -> None:
    """The oracle's loss along one random direction per parameter.

    Its slope is the oracle's gradient.

    Two step sizes, extrapolated: what is left is of order h^4, and rounding of the loss over h.
    """
    del case
    model = load(row.removeprefix(_ROW), folder, seed=1)
    _, gradients = oracle_loss_and_gradients(model)
    rng = np.random.default_rng(1)
    chosen = (
        model.parameters
        if plan == "full"
        else [n for n in model.parameters if n.startswith("blk.0.")]
    )
    wrong: list[str] = []
    for parameter in chosen:
        direction = rng.standard_normal(gradients[parameter].shape)
        slope = float(np.sum(gradients[parameter] * direction))
        size = float(np.linalg.norm(gradients[parameter]) * np.linalg.norm(direction))
        coarse, fine = (_difference(model, parameter, direction, h) for h in (2e-4, 1e-4))
        gap = abs((4 * fine - coarse) / 3 - slope)
        wrong += [] if gap <= CENTRAL_DIFFERENCE * size else [parameter]
    observe.equal(len(chosen), len(wrong), seeds=(1,))
    assert wrong == []


def _difference(model: Model, parameter: str, direction: np.ndarray, h: float) -> float:
    losses: list[float] = []
    for sign in (1.0, -1.0):
        moved = np.asarray(model.stored[parameter], dtype=np.float64) + sign * h * direction
        values = run_graph(model.graph, {**model.wide, parameter: moved}, STEP)
        losses.append(oracle_loss(model.graph, values, model.step))
    return (losses[0] - losses[1]) / (2 * h)
