"""What a run opens before its first step, and the plan that it states from it."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrograd.config.options import MAX_STEPS, DataOptions, RunDocument
from retrograd.errors import ConfigError, DataError
from retrograd.text import ChatTemplate, Dataset, Tokenizer, load_examples
from retrograd.train.progress import size
from retrograd.train.state import Feed
from retrograd.train.trainer import Trainer
from retrograd.version import VERSION


@dataclass(frozen=True)
class Inputs:
    """The open model and the tokenized data of a run.

    Attributes:
        held_out: rows to evaluate on, or None.
        total_steps: optimizer steps of the whole run.
    """

    trainer: Trainer
    train: Dataset
    held_out: Dataset | None
    feed: Feed
    total_steps: int


def open_inputs(document: RunDocument) -> Inputs:
    """Open the model, load the data, and compile the largest step the data needs.

    Raises:
        RetrogradError: a file, an option or the combination of both cannot be used.
    """
    options = document.training
    trainer = Trainer(
        document.model.path, lora=document.lora, training=options, device=document.model.device
    )
    if document.model.adapter is not None:
        trainer.load_adapter(document.model.adapter)
    train, held_out = _load_data(document, trainer.tokenizer, trainer.context)
    feed = Feed(train, seed=options.seed, rows_per_step=options.rows_per_step)
    total = options.steps or options.epochs * feed.steps_per_epoch
    if total > MAX_STEPS:
        rule, got = f"a run has at most {MAX_STEPS} steps", f"{total} in {options.epochs} epochs"
        raise ConfigError("config", rule, got, "train for fewer epochs")
    if options.optimizer.warmup_steps > total:
        rule = "training.optimizer.warmup_steps is at most the steps of the run"
        got = f"{options.optimizer.warmup_steps} with {total} steps"
        raise ConfigError("config", rule, got, "warm up for fewer steps, or train longer")
    trainer.total_steps = total
    # Compiled now: the plan then states the whole run's memory, and no step allocates.
    trainer.prepare(feed.largest_micro_batch(total, options.micro_batch))
    return Inputs(trainer, train, held_out, feed, total)


def _load_data(
    document: RunDocument, tokenizer: Tokenizer, context: int
) -> tuple[Dataset, Dataset | None]:
    data = document.data
    template = _template(data, tokenizer)

    def load(path: Path) -> Dataset:
        return load_examples(
            path,
            tokenizer,
            max_tokens=context,
            kind=data.kind,
            too_long=data.too_long,
            template=template,
        )

    return load(data.train), None if data.eval is None else load(data.eval)


def _template(data: DataOptions, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template of the document, or None to take the model's own as it is."""
    if data.template is None and not data.template_variables and data.template_date is None:
        return None
    source = None
    if data.template is not None:
        try:
            source = data.template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            rule, got = "the template file is UTF-8 text", f"{data.template}: {error}"
            raise DataError("data", rule, got, "check data.template") from error
    now = data.template_date and datetime.datetime.combine(data.template_date, datetime.time())
    return ChatTemplate.of(tokenizer, source=source, variables=data.template_variables, now=now)


def heading(document: RunDocument, inputs: Inputs) -> Iterator[str]:
    """The plan of a run in lines: what is trained on what, for how long, in how much memory."""
    trainer, options = inputs.trainer, document.training
    model, path = trainer.model, document.model.path
    yield f"retrograd {VERSION}, run {document.output.name!r}"
    yield (
        f"model: {path.name}, {model.architecture}, {model.n_layers} layers,"
        f" width {model.width}, {size(path.stat().st_size)}"
    )
    yield f"train: {_counts(inputs.train)}"
    if inputs.held_out is not None:
        known = {tuple(row.token_ids) for row in inputs.train.examples}
        both = sum(tuple(row.token_ids) in known for row in inputs.held_out.examples)
        note = f"; {both} of them are trained on as well" if both else ""
        yield f"held out: {_counts(inputs.held_out)}{note}"
    span = f"{inputs.total_steps / inputs.feed.steps_per_epoch:.3g} epochs"
    yield (
        f"steps: {inputs.total_steps} ({span}), {options.micro_batch} rows x"
        f" {options.accumulation} micro-batches each"
    )
    factors = trainer.parameters()
    n_trained = sum(factor.size for factor in factors.values())
    yield f"trained: {n_trained:,} parameters in {len(factors)} tensors"
    posts = trainer.memory()
    parts = ", ".join(f"{post} {size(n_bytes)}" for post, n_bytes in posts.items() if n_bytes)
    yield f"memory: {size(sum(posts.values()))} planned: {parts}"
    yield from trainer.summary()


def _counts(data: Dataset) -> str:
    text = f"{len(data)} rows, {data.n_tokens:,} tokens, {data.n_supervised:,} supervised"
    if data.n_dropped:
        text += f"; {data.n_dropped} longer rows dropped"
    if data.n_truncated:
        text += f"; {data.n_truncated} longer rows cut"
    return f"{text} ({data.path.name})"
