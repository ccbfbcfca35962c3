"""llama.cpp loads the base model and our adapter.

On the widened file it computes in float32, so logits and the change that the adapter makes are
compared element by element. On the quantized file it rounds activations to 8 bits: there the
adapter is judged by its change alone and by greedy tokens, with an adapter that was trained here
until the model recites four passages, because a trained change stands clear of the rounding.
"""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from lanes.suite.interop.ledger import EPSILON, Ledger
from lanes.suite.interop.rows import IGNORED, PASSAGES, draw_rows
from lanes.whole import step_ceiling
from retrograd import LoraOptions, OptimizerOptions, Trainer, TrainingOptions
from retrograd.text.examples import Example
from retrograd.train.batch import bucket
from retrograd.train.graphs import Kind

if TYPE_CHECKING:
    from lanes.peers.llama_cpp_model import LlamaCpp

PROMPT_WORDS, RECITED_TOKENS = 4, 33
MOST_STEPS, RECITED_LOSS = 80, 0.01


@dataclass(frozen=True)
class Recital:
    """A trainer whose adapter makes the model recite the passages, and the adapter's file."""

    trainer: Trainer
    adapter: Path

    def prompts(self) -> list[str]:
        return [" ".join(passage.split()[:PROMPT_WORDS]) for passage in PASSAGES]


@dataclass(frozen=True)
class Logits:
    """Logits (T, V) of one side, without the adapter and with it."""

    base: npt.NDArray[np.float64]
    adapted: npt.NDArray[np.float64]

    @property
    def change(self) -> npt.NDArray[np.float64]:
        return self.adapted - self.base


@pytest.fixture(scope="module")
def recital(model: Path, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Recital:
    optimizer = OptimizerOptions(learning_rate=3e-3, schedule="constant", warmup_steps=4)
    training = TrainingOptions(steps=MOST_STEPS, optimizer=optimizer)
    trainer = Trainer(model, lora=LoraOptions(rank=8, alpha=24.0), training=training)
    ids = [trainer.tokenize(passage) for passage in PASSAGES]
    rows = [Example(row, [IGNORED, *row[1:]]) for row in ids]
    losses = [trainer.train_step(rows).loss]
    while losses[-1] > RECITED_LOSS and len(losses) < MOST_STEPS:
        losses.append(trainer.train_step(rows).loss)
    assert losses[-1] <= RECITED_LOSS, f"not learnt after {len(losses)} steps: {losses[-1]:.3g}"
    ledger.tell("recital", f"loss {losses[0]:.3f} to {losses[-1]:.4f} in n steps", len(losses))
    path = tmp_path_factory.mktemp("recital") / "recital.gguf"
    return Recital(trainer, trainer.save_adapter(path))


@pytest.fixture(scope="module")
def plain(model: Path) -> Generator["LlamaCpp"]:
    """llama.cpp on the quantized file."""
    yield from opened(model, None)


@pytest.fixture(scope="module")
def tuned(model: Path, recital: Recital) -> Generator["LlamaCpp"]:
    """llama.cpp on the quantized file with our adapter."""
    yield from opened(model, recital.adapter)


@pytest.fixture(scope="module")
def wide_plain(widened: Path) -> Generator["LlamaCpp"]:
    """llama.cpp on the widened file."""
    yield from opened(widened, None)


@pytest.fixture(scope="module")
def wide_tuned(widened: Path, recital: Recital) -> Generator["LlamaCpp"]:
    """llama.cpp on the widened file with our adapter."""
    yield from opened(widened, recital.adapter)


def opened(model: Path, adapter: Path | None) -> Generator["LlamaCpp"]:
    from lanes.peers.llama_cpp_model import LlamaCpp

    llama = LlamaCpp(model, adapter=adapter, context=256)
    yield llama
    llama.close()


def rows_of(seed: int, trainer: Trainer) -> list[list[int]]:
    """A passage that the adapter knows and ids drawn from the whole vocabulary."""
    passage = trainer.tokenize(PASSAGES[seed % len(PASSAGES)])
    return draw_rows(seed, passage, vocabulary=trainer.model.vocabulary).ids


def ours(base: Trainer, recital: Recital, rows: list[list[int]]) -> Logits:
    def of(trainer: Trainer) -> npt.NDArray[np.float64]:
        parts = [trainer.logits(np.array([row], np.int64))[0] for row in rows]
        return np.concatenate(parts).astype(np.float64)

    return Logits(of(base), of(recital.trainer))


def theirs(plain: "LlamaCpp", tuned: "LlamaCpp", rows: list[list[int]]) -> Logits:
    def of(llama: "LlamaCpp") -> npt.NDArray[np.float64]:
        parts = [llama.logits(np.array(row, np.int64)) for row in rows]
        return np.concatenate(parts).astype(np.float64)

    return Logits(of(plain), of(tuned))


def test_widened_model_with_our_adapter(
    seed: int,
    base: Trainer,
    recital: Recital,
    wide_plain: "LlamaCpp",
    wide_tuned: "LlamaCpp",
    ledger: Ledger,
) -> None:
    rows = rows_of(seed, base)
    got, want = ours(base, recital, rows), theirs(wide_plain, wide_tuned, rows)
    program = base.session.program(Kind.LOGITS, bucket(max(len(row) for row in rows)))
    # Both sides round, so each may stand a ceiling away from the truth.
    limit = 2 * step_ceiling(program.graph)
    name = "interop.llama_cpp.widened"
    ledger.within(f"{name}.base", got.base, want.base, ceiling=limit)
    ledger.within(f"{name}.adapted", got.adapted, want.adapted, ceiling=limit)
    # The roundings of two runs, measured by the change instead of by the logits.
    largest = [float(np.abs(part).max()) for part in (want.base, want.adapted, want.change)]
    limit *= (largest[0] + largest[1]) / largest[2]
    ledger.within(f"{name}.change", got.change, want.change, ceiling=limit)
    ledger.beyond(f"{name}.change", 2 * got.change, want.change)


def test_quantized_model_with_our_adapter(
    seed: int,
    base: Trainer,
    recital: Recital,
    plain: "LlamaCpp",
    tuned: "LlamaCpp",
    ledger: Ledger,
) -> None:
    rows = rows_of(seed, base)
    got, want = ours(base, recital, rows), theirs(plain, tuned, rows)
    # A relative error of one is what an adapter without any effect would reach.
    name = "interop.llama_cpp.quantized.change"
    ledger.within(name, got.change, want.change, ceiling=1 / EPSILON)
    ledger.beyond(name, np.zeros_like(got.change), want.change)
    gap = np.abs(got.base - want.base)
    seen = f"max {gap.max():.3g}, p99.9 {np.quantile(gap, 0.999):.3g} absolute: 8-bit activations"
    ledger.tell("base logits, quantized file", seen, gap.size)
    correlation = np.corrcoef(got.change.reshape(-1), want.change.reshape(-1))[0, 1]
    error = np.linalg.norm(got.change - want.change) / np.linalg.norm(want.change)
    ledger.tell("change, quantized file", f"r = {correlation:.5f}, error {error:.3g}", gap.size)


def test_greedy_tokens_of_llama_cpp(
    recital: Recital, plain: "LlamaCpp", tuned: "LlamaCpp", ledger: Ledger
) -> None:
    trainer, prompts = recital.trainer, recital.prompts()
    completions = trainer.generate(prompts, max_tokens=RECITED_TOKENS, chat=False)
    differ: list[str] = []
    for prompt, passage, completion in zip(prompts, PASSAGES, completions, strict=True):
        start = trainer.tokenize(prompt)
        recited = trainer.tokenize(passage)[len(start) :][:RECITED_TOKENS]
        assert len(recited) == RECITED_TOKENS
        assert list(completion.token_ids) == recited
        said = tuned.greedy(start, RECITED_TOKENS)
        differ += [f"{prompt}: {i}" for i in range(RECITED_TOKENS) if said[i] != recited[i]]
        # Without the adapter the model does not know the passage, so the adapter did it.
        assert plain.greedy(start, RECITED_TOKENS) != recited
    ledger.equal("greedy tokens of llama.cpp", differ, RECITED_TOKENS * len(prompts))
