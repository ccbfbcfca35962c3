"""Arguments that no caller should give, and that are refused in words."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.tiny import recipe, write
from retrograd import LoraOptions, OptimizerOptions, Trainer, TrainingOptions
from retrograd.errors import ConfigError, DataError, GgufError, RetrogradError
from retrograd.text.examples import Example

IDS = [5, 6, 7, 8]


@pytest.fixture(scope="module", name="model")
def _model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(recipe(layers=1), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module", name="trainer")
def _trainer(model: Path) -> Trainer:
    return Trainer(model, lora=LoraOptions(rank=2), training=TrainingOptions(threads=2))


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(np.array([True, False]), id="truth values"),
        pytest.param([True, 2, 3], id="a truth value"),
        pytest.param(np.array([1.5, 2.5]), id="fractions"),
        pytest.param([1.0, 2.0], id="floats"),
        pytest.param(["a", "b"], id="texts"),
        pytest.param("abc", id="text"),
        pytest.param(None, id="nothing"),
        pytest.param(3, id="a number"),
        pytest.param({1: 2}, id="a mapping"),
        pytest.param({1, 2}, id="a set"),
        pytest.param([[1, 2], 3], id="a row beside a number"),
        pytest.param([3, [1, 2]], id="a number beside a row"),
        pytest.param(np.zeros((2, 2, 2), np.int64), id="three dimensions"),
        pytest.param(np.array(3), id="no dimension"),
        pytest.param([], id="no row"),
        pytest.param([[1, 2], []], id="an empty row"),
        pytest.param(np.zeros((0, 5), np.int64), id="no rows of five"),
        pytest.param([-1, 2], id="a negative id"),
        pytest.param([260, 2], id="an id beyond the vocabulary"),
        pytest.param([2**32 + 5, 2], id="an id that 32 bits would wrap"),
        pytest.param([10**30, 2], id="an id that 64 bits cannot hold"),
        pytest.param([5] * 257, id="one token beyond the context"),
    ],
)
def test_token_ids_are_whole_numbers_of_the_vocabulary(trainer: Trainer, ids: Any) -> None:
    with pytest.raises(DataError):
        trainer.logits(ids)
    with pytest.raises(DataError):
        trainer.loss_and_gradients(ids, ids)


def test_integers_of_any_kind_give_one_loss(trainer: Trainer) -> None:
    want, _ = trainer.loss_and_gradients(IDS, IDS)
    for given in (tuple(IDS), np.array(IDS, np.uint8), np.array([IDS], np.int64)[:, ::1], [IDS]):
        assert trainer.loss_and_gradients(given, given)[0] == want


@pytest.mark.parametrize("label", [-1, -99, 260, 2**32 + 5, 10**30, 1.5, float("nan"), True])
def test_a_label_is_an_id_or_the_ignored_one(trainer: Trainer, label: Any) -> None:
    with pytest.raises(DataError):
        trainer.loss_and_gradients(IDS, [5, 6, label, 8])
    if label is not True:  # a numpy array of integers and one truth value holds integers
        with pytest.raises(DataError):
            trainer.train_step([Example(IDS, [5, 6, label, 8])])


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([Example([], [])], id="an empty row"),
        pytest.param([Example(IDS, IDS), Example([], [])], id="an empty row beside another"),
        pytest.param([Example(IDS, [1, 2])], id="fewer labels than tokens"),
        pytest.param([Example(IDS, [*IDS, 9])], id="more labels than tokens"),
        pytest.param([Example([1.5, 2.0], [1, 2])], id="fractions"),
        pytest.param([Example([True, False], [1, 0])], id="truth values"),
        pytest.param([Example([2**32 + 5, 1], [5, 1])], id="an id that 32 bits would wrap"),
        pytest.param([Example([-5, 1], [-100, 1])], id="a negative id"),
        pytest.param([Example([5] * 257, [5] * 257)], id="one token beyond the context"),
        pytest.param([(IDS, IDS)], id="a pair"),
        pytest.param(["abc"], id="a text"),
        pytest.param((Example(IDS, IDS) for _ in range(2)), id="a generator"),
        pytest.param(Example(IDS, IDS), id="an example alone"),
        pytest.param([Example([5], [5])], id="nothing after the shift"),
    ],
)
def test_rows_of_a_step_are_examples(trainer: Trainer, rows: Any) -> None:
    for call in (trainer.train_step, trainer.evaluate):
        with pytest.raises(DataError):
            call(rows)


def test_a_step_reports_the_tokens_that_it_learnt_from(trainer: Trainer) -> None:
    report = trainer.train_step([Example(IDS, IDS), Example([5], [5])])
    assert report.supervised_tokens == 3
    assert report.tokens == 5
    assert trainer.evaluate([Example(IDS, IDS)]).supervised_tokens == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": "1"},
        {"temperature": True},
        {"top_k": 2.5},
        {"seed": 1.5},
        {"seed": -1},
        {"seed": 2**64},
        {"max_tokens": 2.5},
        {"max_tokens": True},
        {"prompts": 5},
        {"prompts": b"a"},
        {"prompts": [None]},
        {"prompts": {"a": 1}},
    ],
)
def test_generation_is_asked_in_numbers_and_text(trainer: Trainer, wrong: Any) -> None:
    with pytest.raises(RetrogradError) as refused:
        trainer.generate(**({"prompts": "a", "max_tokens": 2} | wrong))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-300])
def test_a_temperature_near_zero_takes_the_most_likely(
    trainer: Trainer, temperature: float
) -> None:
    greedy = trainer.generate("a", max_tokens=8)[0]
    assert trainer.generate("a", max_tokens=8, temperature=temperature)[0] == greedy


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrainingOptions(steps="3"),
        lambda: TrainingOptions(steps=1.5),
        lambda: TrainingOptions(steps=True),
        lambda: TrainingOptions(steps=2**32),
        lambda: TrainingOptions(steps=10**400),
        lambda: TrainingOptions(micro_batch=None),
        lambda: TrainingOptions(micro_batch=10**30),
        lambda: TrainingOptions(context=10**9),
        lambda: TrainingOptions(seed="a"),
        lambda: TrainingOptions(optimizer={"name": "sgd"}),
        lambda: OptimizerOptions(name="lion"),
        lambda: OptimizerOptions(schedule="step"),
        lambda: OptimizerOptions(learning_rate="1e-3"),
        lambda: OptimizerOptions(learning_rate=1e39),
        lambda: OptimizerOptions(learning_rate=10**400),
        lambda: OptimizerOptions(eps=1e-50),
        lambda: OptimizerOptions(weight_decay=1e39),
        lambda: OptimizerOptions(learning_rate=0.1, weight_decay=11.0),
        lambda: LoraOptions(rank=1.5),
        lambda: LoraOptions(rank=10**9),
        lambda: LoraOptions(alpha=1e300),
        lambda: LoraOptions(alpha=1e-60),
        lambda: LoraOptions(alpha=3e38, rank=4, rslora=True),
        lambda: LoraOptions(targets="q"),
        lambda: LoraOptions(targets=None),
        lambda: LoraOptions(targets=(1,)),
    ],
)
def test_options_are_of_their_type_and_fit_what_kernels_hold(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=r"^\[config\] (lora|training)"):
        make()


def test_a_trainer_takes_options_and_not_tables(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"lora is a LoraOptions; got dict"):
        Trainer(model, lora={"rank": 8})
    with pytest.raises(ConfigError, match=r"training is a TrainingOptions; got dict"):
        Trainer(model, training={"steps": 8})
    with pytest.raises(GgufError, match=r"given by its path; got NoneType"):
        Trainer(None)
    with pytest.raises(ConfigError, match=r"rank is at most 128 for this model; got 1000"):
        Trainer(model, lora=LoraOptions(rank=1000))


@pytest.mark.parametrize("tokens", [0, -1, 2**31, 10**30])
def test_a_step_is_compiled_for_a_number_of_tokens_that_exists(
    trainer: Trainer, tokens: int
) -> None:
    with pytest.raises(ConfigError, match=r"between 1 and 2\^31 - 1 tokens"):
        trainer.prepare(tokens)


def test_an_adapter_replaces_files_and_nothing_else(trainer: Trainer, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for target in (pipe, tmp_path, "", "a\0b"):
        with pytest.raises(GgufError, match=r"the adapter can be written"):
            trainer.save_adapter(target)
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [pipe]
