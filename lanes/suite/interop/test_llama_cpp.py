"""llama.cpp loads the base model and our adapter.

On the widened file it computes in float32, so logits and the change that the adapter makes are
compared element by element. On the quantized file it rounds activations to 8 bits: there the
adapter is judged by its change alone and by greedy tokens, with an adapter that was trained here
until the model recites four passages, because a trained change stands clear of the rounding.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lanes.suite.interop.ledger import EPSILON, Ledger
from lanes.suite.interop.rows import IGNORED, PASSAGES
from lanes.whole import step_ceiling
from retrograd import LoraOptions, OptimizerOptions, Trainer, TrainingOptions
from retrograd.text.examples import Example
from retrograd.train.batch import bucket
from retrograd.train.graphs import Kind

PROMPT_WORDS, RECITED_TOKENS = 4, 33
MOST_STEPS, RECITED_LOSS = 80, 0.01


@dataclass(frozen=True)
class Recital:
    """A trainer whose adapter makes the model recite the passages, and the adapter's file."""

    trainer: Trainer
    adapter: Path

    def prompts(self) -> list[str]:
        return [" ".join(passage.split()[:PROMPT_WORDS]) for passage in PASSAGES]


@pytest.fixture(scope="module")
def recital(
    seed: int, model: Path, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> Recital:
    optimizer = OptimizerOptions(learning_rate=3e-3, schedule="constant", warmup_steps=4)
    training = TrainingOptions(steps=MOST_STEPS, seed=seed, optimizer=optimizer)
    trainer = Trainer(model, lora=LoraOptions(rank=8, alpha=24.0), training=training)
    ids = [trainer.tokenize(passage) for passage in PASSAGES]
    rows = [Example(row, [IGNORED, *row[1:]]) for row in ids]
    losses = [trainer.train_step(rows).loss]
    while losses[-1] > RECITED_LOSS and len(losses) < MOST_STEPS:
        losses.append(trainer.train_step(rows).loss)
    assert losses[-1] <= RECITED_LOSS, f"not learnt after {len(losses)} steps: {losses[-1]:.3g}"
    ledger.tell("recital", f"loss {losses[0]:.3f} to {losses[-1]:.4f} in steps", len(losses))
    path = tmp_path_factory.mktemp("recital") / "recital.gguf"
    return Recital(trainer, trainer.save_adapter(path))


def llama_logits(
    model: Path, adapter: Path | None, rows: list[list[int]]
) -> list[npt.NDArray[np.float64]]:
    from lanes.peers.llama_cpp_model import LlamaCpp

    llama = LlamaCpp(model, adapter=adapter)
    logits = [llama.logits(np.array(row, np.int64)).astype(np.float64) for row in rows]
    llama.close()
    return logits


def our_logits(trainer: Trainer, rows: list[list[int]]) -> list[npt.NDArray[np.float32]]:
    return [trainer.logits(np.array([row], np.int64))[0] for row in rows]


def rows_of(trainer: Trainer) -> list[list[int]]:
    return [trainer.tokenize(passage) for passage in PASSAGES]


def test_widened_model_with_our_adapter(
    widened: Path, base: Trainer, recital: Recital, ledger: Ledger
) -> None:
    rows = rows_of(base)
    ours = np.concatenate(our_logits(recital.trainer, rows))
    ours_base = np.concatenate(our_logits(base, rows))
    theirs = np.concatenate(llama_logits(widened, recital.adapter, rows))
    theirs_base = np.concatenate(llama_logits(widened, None, rows))
    program = base.session.program(Kind.LOGITS, bucket(max(len(row) for row in rows)))
    # Both sides round, so each may stand a ceiling away from the truth.
    ceiling = 2 * step_ceiling(program.graph)
    ledger.within("interop.llama_cpp.widened.base", ours_base, theirs_base, ceiling=ceiling)
    ledger.within("interop.llama_cpp.widened.adapted", ours, theirs, ceiling=ceiling)
    change, want = ours - ours_base, theirs - theirs_base
    # The roundings of two runs, measured by the change instead of by the logits.
    lift = float(np.abs(theirs).max() + np.abs(theirs_base).max()) / float(np.abs(want).max())
    name = "interop.llama_cpp.widened.change"
    ledger.within(name, change, want, ceiling=ceiling * lift)
    ledger.beyond(name, np.float32(2.0) * change, want)


def test_quantized_model_with_our_adapter(
    model: Path, base: Trainer, recital: Recital, ledger: Ledger
) -> None:
    rows = rows_of(base)
    theirs_base = np.concatenate(llama_logits(model, None, rows))
    ours_base = np.concatenate(our_logits(base, rows))
    want = np.concatenate(llama_logits(model, recital.adapter, rows)) - theirs_base
    change = np.concatenate(our_logits(recital.trainer, rows)) - ours_base
    # A relative error of one is what an adapter without any effect would reach.
    name = "interop.llama_cpp.quantized.change"
    ledger.within(name, change, want, ceiling=1 / EPSILON)
    ledger.beyond(name, np.zeros_like(change), want)
    gap = np.abs(ours_base - theirs_base)
    ledger.tell(
        "base logits of the quantized file",
        f"max {gap.max():.3g}, p99.9 {np.quantile(gap, 0.999):.3g} absolute: 8-bit activations",
        gap.size,
    )
    correlation = np.corrcoef(change.reshape(-1), want.reshape(-1))[0, 1]
    error = np.linalg.norm(change - want) / np.linalg.norm(want)
    ledger.tell(
        "change on the quantized file", f"r = {correlation:.5f}, error {error:.3g}", gap.size
    )


def test_greedy_tokens_of_llama_cpp(model: Path, recital: Recital, ledger: Ledger) -> None:
    from lanes.peers.llama_cpp_model import LlamaCpp

    trainer, prompts = recital.trainer, recital.prompts()
    ours = trainer.generate(prompts, max_tokens=RECITED_TOKENS, chat=False)
    llama, alone = LlamaCpp(model, adapter=recital.adapter), LlamaCpp(model)
    differ: list[str] = []
    for prompt, passage, completion in zip(prompts, PASSAGES, ours, strict=True):
        start = trainer.tokenize(prompt)
        recited = trainer.tokenize(passage)[len(start) :][:RECITED_TOKENS]
        assert len(recited) == RECITED_TOKENS
        assert list(completion.token_ids) == recited
        theirs = llama.greedy(start, RECITED_TOKENS)
        differ += [f"{prompt}: {i}" for i in range(RECITED_TOKENS) if theirs[i] != recited[i]]
        # Without the adapter the model does not know the passage, so the adapter did it.
        assert alone.greedy(start, RECITED_TOKENS) != recited
    llama.close()
    alone.close()
    ledger.equal("greedy tokens of llama.cpp", differ, RECITED_TOKENS * len(prompts))
