"""Lane `exactness`.

What must not change a bit of a step, what may change its rounding only, and the step itself.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes.comparator import bitwise_equal
from lanes.tiny_model import VARIANTS, make_step, open_trainer, write_model
from lanes.tolerances import bound_of, read
from lanes.whole import RAGGED, SPLITS, split_gaps
from oracles.pinned import adamw, clip, sgd, sum_squares
from retrograd import Trainer
from retrograd.config.options import OptimizerName
from retrograd.text.examples import Example

Single = NDArray[np.float32]
OPTIMIZERS: tuple[OptimizerName, ...] = ("adamw", "sgd")
STEPS = 3


def _train(path: Path, name: str, *, threads: int, optimizer: OptimizerName) -> dict[str, Single]:
    """Losses, norms, gradients and weights of a few steps in micro-batches of three rows."""
    trainer = open_trainer(
        path, VARIANTS[name].lora, seed=0, threads=threads, micro_batch=3, optimizer=optimizer
    )
    seen: dict[str, Single] = {}
    for number in range(STEPS):
        step = make_step(number, RAGGED)
        rows = [Example(row, marks) for row, marks in zip(step.rows, step.labels, strict=True)]
        loss, gradients = trainer.loss_and_gradients(step.rows, step.labels)
        report = trainer.train_step(rows)
        seen |= {f"step {number} gradient of {n}": g for n, g in gradients.items()}
        seen |= {f"step {number} weight {n}": w for n, w in trainer.parameters().items()}
        numbers = np.array([loss, report.loss, report.grad_norm])
        seen[f"step {number} loss, loss of the step, norm"] = numbers.view(np.float32)
    return seen


def _assert_equal_bits(got: dict[str, Single], want: dict[str, Single], where: str) -> None:
    assert sorted(got) == sorted(want)
    assert want
    for name, array in want.items():
        verdict = bitwise_equal(got[name], array)
        assert verdict.holds, f"{where}: {name}: {verdict.reason}"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", VARIANTS)
def test_threads_and_repeats_change_no_bit(
    name: str, optimizer: OptimizerName, tmp_path: Path
) -> None:
    """Loss, norm, every gradient and every updated weight for 1, 2, 4 and again 2 threads."""
    path = write_model(name, tmp_path)
    first = _train(path, name, threads=1, optimizer=optimizer)
    for threads in (2, 4, 2):
        _assert_equal_bits(
            _train(path, name, threads=threads, optimizer=optimizer), first, f"{threads} threads"
        )


def test_split_changes_only_rounding(tmp_path: Path) -> None:
    """Eight ragged rows as 8x1, 4x2, 2x4 and 1x8 micro-batches x rows.

    Loss and gradients within the recorded bounds.
    """
    table = read()
    gaps = split_gaps(tmp_path, seed=0)
    assert sorted(gaps) == sorted(SPLITS)
    for split, (loss, gradients) in gaps.items():
        assert loss.max() <= bound_of("whole.split.loss", table), f"{split} rows a micro-batch"
        assert gradients.max() <= bound_of("whole.split.gradients", table), (
            f"{split} rows a micro-batch"
        )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_update_equals_its_replay(optimizer: OptimizerName, tmp_path: Path) -> None:
    """Norm, clip factor and two updates, replayed from the product's own gradients, bit for bit."""
    name = next(iter(VARIANTS))
    trainer = open_trainer(
        write_model(name, tmp_path), VARIANTS[name].lora, seed=0, optimizer=optimizer
    )
    state: dict[str, dict[str, Single]] = {}
    for number in range(2):
        step = make_step(number, RAGGED)
        _, gradients = trainer.loss_and_gradients(step.rows, step.labels)
        before = trainer.parameters()
        report = trainer.train_step(
            [Example(r, m) for r, m in zip(step.rows, step.labels, strict=True)]
        )
        sums = np.concatenate([sum_squares.forward(g=gradients[n])["sums"] for n in before])
        factor = clip.forward(sums=sums, max_norm=trainer.training.optimizer.max_grad_norm)
        assert report.grad_norm == factor["norm"][0]
        for parameter, weight in trainer.parameters().items():
            fields = {"g": gradients[parameter], "clip": factor["scale"], "x": before[parameter]}
            after = _replay(
                trainer, optimizer, number + 1, report.learning_rate, fields, state.get(parameter)
            )
            state[parameter] = {n: a for n, a in after.items() if n != "x"}
            verdict = bitwise_equal(weight, after["x"])
            assert verdict.holds, f"step {number}, {parameter}: {verdict.reason}"


def _replay(
    trainer: Trainer,
    optimizer: OptimizerName,
    step: int,
    rate: float,
    fields: dict[str, Single],
    state: dict[str, Single] | None,
) -> dict[str, Single]:
    """The written order of operations, with settings computed here in float64 and rounded once."""
    o = trainer.training.optimizer
    zeros = np.zeros_like(fields["x"])
    keep = 1 - rate * o.weight_decay
    if optimizer == "sgd":
        settings = np.array([rate, o.momentum, keep]).astype(np.float32)
        return sgd.step(
            settings=settings, nesterov=int(o.nesterov), **{"buf": zeros, **fields, **(state or {})}
        )
    b1, b2 = o.beta1, o.beta2
    numbers = [rate, b1, b2, 1 - b1, 1 - b2, 1 - b1**step, 1 - b2**step, o.eps, keep]
    settings = np.array(numbers).astype(np.float32)
    return adamw.step(settings=settings, **{"m": zeros, "v": zeros, **fields, **(state or {})})


def test_base_weights_are_left_alone(tmp_path: Path) -> None:
    """The digest of the frozen weights in memory is the same after training."""
    name = "llama-q4_1"
    trainer = open_trainer(write_model(name, tmp_path), VARIANTS[name].lora, seed=0)
    before = trainer.base_digest()
    step = make_step(0, RAGGED)
    trainer.train_step([Example(r, m) for r, m in zip(step.rows, step.labels, strict=True)])
    assert trainer.base_digest() == before
