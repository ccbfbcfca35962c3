"""The public face: a GGUF model that can be scored, trained, asked and exported."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from retrograd.config.options import LoraOptions, TrainingOptions
from retrograd.errors import ConfigError, DataError, GgufError, TrainingError
from retrograd.export.adapter import read_adapter, write_adapter
from retrograd.families import ModelConfig
from retrograd.graph import Adapter, Phase
from retrograd.optim import learning_rate
from retrograd.optim.step import DECAYED, NORM, PLAIN, SUMS, norm_slices, trained
from retrograd.runtime import Program
from retrograd.text import Tokenizer
from retrograd.text.examples import Example
from retrograd.train.adapters import first_factor_a, make_adapters, require_same
from retrograd.train.batch import MicroBatch, bucket, join_rows, split_step
from retrograd.train.generate import Completion, Generator, Sampling
from retrograd.train.graphs import Kind
from retrograd.train.one_at_a_time import OneAtATime, alone
from retrograd.train.session import Session
from retrograd.train.tokens import (
    TokenRows,
    prompt_texts,
    require_examples,
    require_rows,
    require_supervised,
    whole_rows,
)

Float32s = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StepReport:
    """One optimizer step.

    Attributes:
        loss: mean negative log-likelihood over the step's supervised tokens, in nats.
        grad_norm: global gradient norm before clipping.
        seconds: wall time of the step.
    """

    step: int
    loss: float
    learning_rate: float
    grad_norm: float
    supervised_tokens: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class EvalReport:
    """Mean negative log-likelihood over held-out supervised tokens, in nats."""

    loss: float
    supervised_tokens: int


class Trainer(OneAtATime):
    """Fine-tunes a GGUF language model.

    Python threads may share one: a call waits until that of another thread has ended.

    Args:
        model_path: GGUF file of a listed architecture; its weights stay as they are.
        lora: adapter to train; None for scoring and generation only.
        training: batch sizes, optimizer, schedule, seed and threads.
        device: backend name.

    Raises:
        GgufError: the file cannot be trusted or is of no listed architecture.
        ConfigError: options do not hold together.
        DeviceError: the backend cannot be opened.
        AdmissionError: the evidence table or the device refuses a part of the run.
    """

    def __init__(
        self,
        model_path: str | Path,
        *,
        lora: LoraOptions | None = None,
        training: TrainingOptions | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.training = _options(training, TrainingOptions, "training") or TrainingOptions()
        self.total_steps = max(self.training.steps, 1)
        self._lora = _options(lora, LoraOptions, "lora")
        self.session = Session(
            model_path,
            optimizer=self.training.optimizer,
            context=self.training.context,
            lora=lora,
            device_name=device,
            threads=self.training.threads or None,
        )
        self.tokenizer = Tokenizer.from_metadata(self.session.file.metadata)
        if self.tokenizer.n_tokens > self.model.vocabulary:
            rule = "each token of the vocabulary has a row in the embedding table"
            got = f"{self.tokenizer.n_tokens} tokens, {self.model.vocabulary} rows"
            raise GgufError("gguf", rule, got, "convert the model again")
        self.step = 0
        self._alpha = lora.exported_alpha if lora else 0.0
        if lora is not None:
            self._new_adapter(lora)

    # -- what the model is

    @property
    def model(self) -> ModelConfig:
        """Geometry of the model."""
        return self.session.config

    @property
    def context(self) -> int:
        """Most tokens a training row may have: the option, or what it left to the model."""
        return self.session.context

    @alone
    def summary(self) -> list[str]:
        """Lines for the user: device, threads, kernel rows admitted."""
        return self.session.summary()

    def base_digest(self) -> str:
        """SHA-256 of the frozen weights as they lie in memory."""
        return self.session.base_digest()

    @alone
    def memory(self) -> dict[str, int]:
        """Planned bytes by post of the largest program so far."""
        return self.session.largest_plan()

    @alone
    def parameters(self) -> dict[str, Float32s]:
        """Copies of the trained tensors by name."""
        names = [f"{w}.{part}" for w in self.session.adapters for part in ("lora_a", "lora_b")]
        return {name: self.session.factor(name) for name in names}

    # -- scoring

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text, without begin and end; special tokens in it are recognised."""
        return self.tokenizer.encode(text)

    @alone
    def logits(self, token_ids: TokenRows) -> Float32s:
        """Logits of every token.

        Args:
            token_ids: (B, T) or (T,) ids.

        Returns:
            (B, T, V) float32.
        """
        rows = self._rows(token_ids)
        if len({len(row) for row in rows}) != 1:
            raise DataError(
                "logits", "rows have one length", [len(row) for row in rows], "call once a length"
            )
        out = np.empty((len(rows), len(rows[0]), self.model.vocabulary), np.float32)
        for i, row in enumerate(rows):
            batch = join_rows([Example(row, row)])
            program = self.session.program(Kind.LOGITS, len(batch.ids))
            _fill(program, batch)
            program.run(Phase.MICRO)
            out[i] = program.read("logits")[: len(row)]
        return out

    @alone
    def loss_and_gradients(
        self, token_ids: TokenRows, labels: TokenRows
    ) -> tuple[float, dict[str, Float32s]]:
        """Loss and gradient of every trained tensor, without a step.

        Args:
            token_ids: (B, T) or (T,) ids; a list of rows may be ragged.
            labels: same shape; -100 is ignored. Labels are aligned with token_ids and shifted
                inside.

        Returns:
            The mean loss over supervised tokens, and gradients by tensor name (``<weight>.lora_a``
            (r, in),
            ``<weight>.lora_b`` (out, r)).
        """
        self._require_trained()
        ids, marks = self._rows(token_ids), whole_rows(labels, where="loss", what="labels")
        if [len(r) for r in ids] != [len(r) for r in marks]:
            got = ([len(r) for r in ids], [len(r) for r in marks])
            raise DataError(
                "loss", "labels have the shape of token_ids", got, "give one label per token"
            )
        rows = [Example(row, mark) for row, mark in zip(ids, marks, strict=True)]
        loss, _, program = self._accumulate(rows, step=self.step + 1)
        pairs = trained(program.graph)
        return loss, {parameter.name: program.store.read(gradient) for parameter, gradient in pairs}

    @alone
    def evaluate(self, rows: Sequence[Example]) -> EvalReport:
        """Loss over held-out rows, without gradients or dropout."""
        if not rows:
            raise DataError("evaluate", "there is at least one row", 0, "check the evaluation data")
        self._require_examples(rows)
        total, count = 0.0, 0
        for start in range(0, len(rows), self.training.micro_batch):
            batch = join_rows(rows[start : start + self.training.micro_batch])
            program = self.session.program(Kind.LOSS, len(batch.ids))
            _fill(program, batch)
            program.run(Phase.MICRO)
            total += float(program.read("nll").sum(dtype=np.float64))
            count += batch.n_supervised
        require_supervised(count, rows)
        if not np.isfinite(total):
            got = f"{total} over {count} tokens"
            raise TrainingError("evaluate", "the loss is finite", got, "check the adapter")
        return EvalReport(total / count, count)

    # -- training

    @alone
    def prepare(self, tokens: int) -> None:
        """Compiles the step for micro-batches of ``tokens`` tokens, so that memory is known."""
        self._require_trained()
        if not 1 <= tokens < 2**31:
            rule, got = "a micro-batch has between 1 and 2^31 - 1 tokens", f"{tokens} tokens"
            raise ConfigError("train", rule, got, "lower training.micro_batch")
        self.session.program(Kind.TRAIN, bucket(tokens))

    @alone
    def train_step(self, rows: Sequence[Example]) -> StepReport:
        """One optimizer step over rows, in micro-batches of ``training.micro_batch`` rows.

        The loss is normalised over the supervised tokens of the whole step, so the split changes
        nothing but rounding.

        Raises:
            DataError: no row, or no supervised token.
            TrainingError: the loss or a gradient is not finite; nothing was updated.
        """
        self._require_trained()
        start = time.perf_counter()
        step = self.step + 1
        rate = learning_rate(self.training.optimizer, step, self.total_steps)
        loss, supervised, program = self._accumulate(rows, step=step)
        program.run(Phase.NORM)
        norm = float(program.read(NORM)[0])
        self._require_finite(loss, norm, program, step)
        decay = self.training.optimizer.weight_decay
        program.write(DECAYED, self.session.optimizer.settings(step, rate, decay))
        program.write(PLAIN, self.session.optimizer.settings(step, rate, 0.0))
        program.run(Phase.UPDATE)
        self.step = step
        tokens = sum(len(row.token_ids) for row in rows)
        return StepReport(step, loss, rate, norm, supervised, tokens, time.perf_counter() - start)

    # -- generation

    @alone
    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        chat: bool = True,
        system: str | None = None,
    ) -> list[Completion]:
        """Continues prompts with a key and value cache, all of them together.

        Args:
            prompts: one or several user messages (or raw texts with ``chat=False``).
            max_tokens: most new tokens each.
            temperature: 0 for the most likely token, else softmax(logits / temperature).
            top_p: smallest set of tokens with at least this much probability; 1 for all.
            top_k: this many most likely tokens; 0 for all.
            seed: key of the sampling stream; a prompt's draws depend on its place and not on its
                companions.
            chat: render each prompt as a conversation in the model's template.
            system: system message of that conversation.

        Returns:
            One completion a prompt, in order.
        """
        texts = prompt_texts(prompts)
        generator = Generator(self.session, self.tokenizer)
        sampling = Sampling(temperature, top_p, top_k, seed)
        ids = [generator.prompt_ids(text, chat=chat, system=system) for text in texts]
        return generator.run(ids, max_tokens=max_tokens, sampling=sampling)

    # -- adapters

    @alone
    def load_adapter(self, path: str | Path) -> None:
        """Replaces the adapter by one from a file; the optimizer's state starts anew.

        A trainer that was given lora options goes on training the file's factors, so rank, scale
        and targets of both must agree; its dropout holds. Without options the factors are frozen.

        Raises:
            GgufError: the file is no adapter, or not one of this model.
            ConfigError: the adapter is not what the lora options say.
        """
        loaded = read_adapter(path, self.session.file)
        if self._lora is not None:
            adapters = make_adapters(self.model, self._lora, self.training.seed)
            require_same(self._lora, adapters, loaded)
        else:
            adapters = {
                n: Adapter(f.rank, loaded.scale(n), trained=False)
                for n, f in loaded.factors.items()
            }
        factors: dict[str, Float32s] = {}
        for name, pair in loaded.factors.items():
            factors[f"{name}.lora_a"], factors[f"{name}.lora_b"] = pair.lora_a, pair.lora_b
        self.session.set_adapters(adapters, factors)
        self._alpha = loaded.alpha
        self.step = 0

    @alone
    def save_adapter(self, path: str | Path) -> Path:
        """Writes the adapter as a GGUF LoRA file, reads it back and compares every factor.

        Raises:
            ConfigError: there is no adapter.
            GgufError: the file cannot be written or read back.
        """
        if not self.session.adapters:
            raise ConfigError(
                "adapter", "there is an adapter to save", "none", "give lora options or load one"
            )
        values = self.parameters()
        factors = {n: (values[f"{n}.lora_a"], values[f"{n}.lora_b"]) for n in self.session.adapters}
        name = self.session.file.metadata.get("general.name")
        extra = {"general.name": f"{name} adapter"} if isinstance(name, str) else None
        return write_adapter(
            path,
            architecture=self.model.architecture,
            alpha=self._alpha,
            factors=factors,
            metadata=extra,
        )

    # -- inside

    def _new_adapter(self, lora: LoraOptions) -> None:
        seed = self.training.seed
        adapters = make_adapters(self.model, lora, seed)
        factors: dict[str, Float32s] = {}
        for name, adapter in adapters.items():
            rows, columns = self.session.file.tensor(name).shape
            factors[f"{name}.lora_a"] = first_factor_a(name, adapter.rank, columns, seed)
            factors[f"{name}.lora_b"] = np.zeros((rows, adapter.rank), np.float32)
        self.session.set_adapters(adapters, factors)

    def _accumulate(self, rows: Sequence[Example], *, step: int) -> tuple[float, int, Program]:
        """Accumulates gradients; returns the loss, its count of tokens and the last program."""
        if not rows:
            raise DataError("train", "a step has at least one row", 0, "check the training data")
        self._require_examples(rows)
        batches = split_step(rows, self.training.micro_batch)
        count = sum(batch.n_supervised for batch in batches)
        require_supervised(count, rows)
        weight = np.float32(1.0 / count)
        total = 0.0
        program = self.session.program(Kind.TRAIN, max(len(batch.ids) for batch in batches))
        program.run(Phase.BEGIN)
        for batch in batches:
            program = self.session.program(Kind.TRAIN, len(batch.ids))
            _fill(program, batch)
            program.write("loss_weights", np.where(batch.targets >= 0, weight, np.float32(0.0)))
            if "step" in program.inputs:
                program.write("token_index", batch.token_index)
                program.write("step", np.array([step], np.uint32))
            program.run(Phase.MICRO)
            total += float(program.read("nll").sum(dtype=np.float64))
        return total / count, count, program

    def _require_trained(self) -> None:
        if self._lora is None:
            raise ConfigError(
                "train", "something is trained", "lora = None", "give lora options to Trainer"
            )

    def _require_finite(self, loss: float, norm: float, program: Program, step: int) -> None:
        if np.isfinite(loss) and np.isfinite(norm):
            return
        sums = program.read(SUMS)
        slices = norm_slices(trained(program.graph))
        bad = [name for name, begin, end in slices if not np.isfinite(sums[begin:end]).all()]
        first = bad[0] if bad else "none"
        got = f"loss {loss}, gradient norm {norm} at step {step}; first bad tensor: {first}"
        raise TrainingError(
            "train",
            "loss and gradients are finite",
            got,
            "lower the learning rate, or check the data and the model's weights",
        )

    def _rows(self, token_ids: TokenRows) -> list[list[int]]:
        rows = whole_rows(token_ids, where="tokens", what="token ids")
        limits = self.model.vocabulary, self.session.positions
        require_rows(rows, vocabulary=limits[0], positions=limits[1])
        return rows

    def _require_examples(self, rows: Sequence[Example]) -> None:
        limits = self.model.vocabulary, self.session.positions
        require_examples(rows, vocabulary=limits[0], positions=limits[1])


Options = TypeVar("Options", LoraOptions, TrainingOptions)


def _options(given: object, kind: type[Options], name: str) -> Options | None:
    """Options as they were given; a table as it stands in a run document is a likely mistake."""
    if given is None or isinstance(given, kind):
        return given
    rule, remedy = f"{name} is a {kind.__name__}", f"write {kind.__name__}(...)"
    raise ConfigError("config", rule, type(given).__name__, remedy)


def _fill(program: Program, batch: MicroBatch) -> None:
    for name in ("ids", "positions", "key_begin", "key_end"):
        program.write(name, getattr(batch, name))
    if "targets" in program.inputs:
        program.write("targets", batch.targets)


__all__ = ["Completion", "EvalReport", "StepReport", "Trainer"]
