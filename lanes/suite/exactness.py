"""Lane `exactness`.

What must not change a bit of a step, what may change its rounding only, and the step itself.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lanes.comparator import bitwise_equal
from lanes.observation import Observe, Tally
from lanes.registry import Need, Planned, lane
from lanes.tiny_model import VARIANTS, make_step, open_trainer, write_model
from lanes.tolerances import bound_of, read
from lanes.whole import RAGGED, SPLITS, split_tally
from oracles.pinned import adamw, clip, sgd, sum_squares
from retrograd import Trainer
from retrograd.config.options import OptimizerName
from retrograd.text.examples import Example

Single = NDArray[np.float32]
OPTIMIZERS: tuple[OptimizerName, ...] = ("adamw", "sgd")
STEPS = 3
SPLIT = "exactness.splits"
_ROW = "exactness.step."


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


class _Bits:
    """Arrays that have to be equal bit by bit: how many elements, and which are not."""

    def __init__(self) -> None:
        self.elements, self.differing, self.wrong = 0, 0, list[str]()

    def compare(self, got: Single, want: Single, where: str) -> None:
        """One more pair of arrays."""
        verdict = bitwise_equal(got, want)
        self.elements += verdict.n
        if not verdict.holds:
            self.differing += int(min(verdict.worst, want.size))
            self.wrong.append(f"{where}: {verdict.reason}")


def _updates(case: str) -> Iterator[Planned]:
    return (Planned(f"{_ROW}{optimizer}", case) for optimizer in OPTIMIZERS)


def _threads(_plan: str) -> Iterator[Planned]:
    return (case for name in VARIANTS for case in _updates(f"threads {name}"))


def _replays(_plan: str) -> Iterator[Planned]:
    return _updates("replay")


def _splits(_plan: str) -> Iterator[Planned]:
    return (Planned(SPLIT, case, inputs=len(SPLITS)) for case in ("loss", "gradients"))


def _frozen(_plan: str) -> Iterator[Planned]:
    return iter([Planned("exactness.base", "digest")])


@lane("exactness", rows=_threads, needs=(Need.DEVICE,))
def test_threads_and_repeats_change_no_bit(
    row: str, case: str, tmp_path: Path, observe: Observe
) -> None:
    """Loss, norm, every gradient and every updated weight for 1, 2, 4 and again 2 threads."""
    optimizer, name = _optimizer(row), case.partition(" ")[2]
    path = write_model(name, tmp_path)
    first = _train(path, name, threads=1, optimizer=optimizer)
    bits = _Bits()
    for threads in (2, 4, 2):
        again = _train(path, name, threads=threads, optimizer=optimizer)
        assert sorted(again) == sorted(first)
        for part, want in first.items():
            bits.compare(again[part], want, f"{threads} threads: {part}")
    observe.equal(bits.elements, bits.differing, seeds=range(STEPS))
    assert bits.wrong == []


def _optimizer(row: str) -> OptimizerName:
    return next(name for name in OPTIMIZERS if row == f"{_ROW}{name}")


@lane("exactness", rows=_splits, needs=(Need.DEVICE, Need.BOUNDS))
def test_split_changes_only_rounding(row: str, case: str, tmp_path: Path, observe: Observe) -> None:
    """Eight ragged rows as 8x1, 4x2, 2x4 and 1x8 micro-batches x rows.

    Loss and gradients within the recorded bounds.
    """
    del row
    bound = bound_of(f"whole.split.{case}", read())
    tally: Tally = split_tally(tmp_path, seed=0, part=case)
    observe(tally, grade="bounded", bound=bound, seeds=(0,))
    assert tally.inputs == len(SPLITS)
    assert tally.errors().max_ulp <= bound


@lane("exactness", rows=_replays, needs=(Need.DEVICE,))
def test_update_equals_its_replay(row: str, case: str, tmp_path: Path, observe: Observe) -> None:
    """Norm, clip factor and two updates, replayed from the product's own gradients, bit for bit."""
    del case
    optimizer, name, bits = _optimizer(row), next(iter(VARIANTS)), _Bits()
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
        norm = np.array([report.grad_norm]).astype(np.float32)
        bits.compare(norm, np.asarray(factor["norm"][:1], np.float32), f"step {number}, norm")
        for parameter, weight in trainer.parameters().items():
            fields = {"g": gradients[parameter], "clip": factor["scale"], "x": before[parameter]}
            after = _replay(
                trainer, optimizer, number + 1, report.learning_rate, fields, state.get(parameter)
            )
            state[parameter] = {n: a for n, a in after.items() if n != "x"}
            bits.compare(weight, after["x"], f"step {number}, {parameter}")
    observe.equal(bits.elements, bits.differing, seeds=(0, 1))
    assert bits.wrong == []


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


@lane("exactness", rows=_frozen, needs=(Need.DEVICE,))
def test_base_weights_are_left_alone(row: str, case: str, tmp_path: Path, observe: Observe) -> None:
    """The digest of the frozen weights in memory is the same after training."""
    del row, case
    name = "llama-q4_1"
    trainer = open_trainer(write_model(name, tmp_path), VARIANTS[name].lora, seed=0)
    before = trainer.base_digest()
    step = make_step(0, RAGGED)
    trainer.train_step([Example(r, m) for r, m in zip(step.rows, step.labels, strict=True)])
    same = trainer.base_digest() == before
    observe.equal(1, int(not same), seeds=(0,))
    assert same
