"""Options of a run as Python sees them, with their defaults; the run document has the same keys.

Each class is one table of the document. Values are checked when an object is made, in Python as in
TOML; :class:`~retrograd.config.rules.OptionsError` tells all broken rules of a table together.
"""

import dataclasses
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from retrograd.config.rules import (
    MOST_SINGLE,
    Check,
    at_least,
    enforce,
    is_single,
    nearest,
    plain,
    positive,
    texts,
    typed,
)

Schedule = Literal["constant", "linear", "cosine"]
OptimizerName = Literal["adamw", "sgd"]
DataKind = Literal["auto", "chat", "completion", "text"]
TooLong = Literal["refuse", "drop", "truncate"]
Alias = str
Variable = str | int | float | bool

TARGET_ALIASES: dict[str, str] = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_gate": "ffn_gate",
    "ffn_up": "ffn_up",
    "ffn_down": "ffn_down",
}
MAX_THREADS = 1024
MAX_STEPS = 2**32 - 1  # a step's number is a 32-bit word of the random streams' counter
MAX_CONTEXT = 1 << 20  # tokens; the rotary tables have a row for each
MAX_RANK = 1 << 16
MAX_ROWS = 2**31 - 1
_PATTERN_CHARACTERS = frozenset(".*?[")


@dataclass(frozen=True)
class ModelOptions:
    """The base model.

    Attributes:
        path: a GGUF file.
        adapter: a LoRA adapter to continue from; None starts anew.
        device: backend that runs it.
    """

    path: Path
    adapter: Path | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class DataOptions:
    """What is learnt, and what it is judged by.

    Attributes:
        train: file to train on.
        eval: file to evaluate on, never trained on; None leaves evaluation out.
        kind: what the files hold; ``auto`` finds out.
        too_long: what to do with a row of more than ``training.context`` tokens.
        template: Jinja file to render conversations with, in place of the model's own template.
        template_variables: further variables of the template, such as ``enable_thinking``.
        template_date: the day a template that asks for today's date is told; None takes today.
    """

    train: Path
    eval: Path | None = None
    kind: DataKind = "auto"
    too_long: TooLong = "refuse"
    template: Path | None = None
    template_variables: Mapping[str, Variable] = field(default_factory=dict[str, Variable])
    template_date: datetime.date | None = None


@dataclass(frozen=True)
class LoraOptions:
    """A low-rank adapter: y = x W^T + (alpha / rank) dropout(x) A^T B^T (arXiv:2106.09685).

    Attributes:
        rank: r >= 1.
        alpha: numerator of the scale, above 0.
        dropout: rate in [0, 1).
        rslora: scale by alpha / sqrt(rank) instead (arXiv:2312.03732); exported as
            alpha sqrt(rank).
        targets: aliases (q, k, v, o, ffn_gate, ffn_up, ffn_down), ``auto`` for all of them, or
            shell patterns over tensor names such as ``blk.2?.attn_q.weight``.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    rslora: bool = False
    targets: tuple[Alias, ...] = ("auto",)

    def __post_init__(self) -> None:
        """Refuse values outside their domain."""
        enforce("lora", [*typed(self), texts("targets", self.targets)])
        enforce("lora", self._checks())

    def _checks(self) -> Iterator[Check]:
        yield at_least("rank", self.rank, 1, "choose a rank such as 8")
        yield positive("alpha", self.alpha, "choose alpha such as 16")
        yield Check(
            not self.rank > MAX_RANK,
            f"rank is at most {MAX_RANK}",
            f"rank = {self.rank}",
            "choose a rank such as 8",
        )
        derives = 1 <= self.rank <= MAX_RANK and is_single(self.alpha)
        yield Check(
            not derives or (is_single(self.scale) and is_single(self.exported_alpha)),
            "the scale that alpha gives is a normal float32 number",
            f"alpha = {self.alpha} with rank = {self.rank}",
            "choose alpha such as 16",
        )
        yield Check(
            0 <= self.dropout < 1,
            "dropout lies in [0, 1)",
            f"dropout = {self.dropout}",
            "choose a rate such as 0.05, or 0 for none",
        )
        yield Check(
            len(self.targets) > 0,
            "targets names at least one group of weights",
            "targets = []",
            'leave the key out, or write targets = ["auto"]',
        )
        known = ("auto", *TARGET_ALIASES)
        for target in self.targets:
            like = nearest(target, known)
            yield Check(
                target in known or not _PATTERN_CHARACTERS.isdisjoint(target),
                f"a target is one of {', '.join(known)}, or a pattern over tensor names",
                f"{target!r}",
                f"write {like!r}" if like else "choose one of these",
            )

    @property
    def scale(self) -> float:
        """What the product of the factors is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)

    @property
    def exported_alpha(self) -> float:
        """The alpha for which alpha / rank is the scale in use."""
        return self.scale * self.rank


@dataclass(frozen=True)
class OptimizerOptions:
    """AdamW or SGD; see docs of :mod:`retrograd.optim` for the exact updates.

    Attributes:
        learning_rate: peak rate.
        weight_decay: decoupled decay, applied to parameters with two dimensions.
        max_grad_norm: global-norm clip; 0 turns clipping off.
        beta1, beta2, eps: AdamW.
        momentum, nesterov: SGD.
        schedule: shape after warm-up; ``linear`` and ``cosine`` end at ``final_rate_share`` of the
            peak.
        warmup_steps: steps of linear warm-up.
    """

    name: OptimizerName = "adamw"
    learning_rate: float = 2e-4
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    momentum: float = 0.0
    nesterov: bool = False
    schedule: Schedule = "cosine"
    warmup_steps: int = 0
    final_rate_share: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values outside their domain."""
        enforce("training.optimizer", typed(self))
        enforce("training.optimizer", self._checks())

    def _checks(self) -> Iterator[Check]:
        yield positive("learning_rate", self.learning_rate, "choose a rate such as 2e-4")
        yield Check(
            0 <= self.weight_decay <= MOST_SINGLE,
            f"weight_decay lies between 0 and {MOST_SINGLE:.3g}",
            f"weight_decay = {self.weight_decay}",
            "choose 0 for none",
        )
        yield at_least("max_grad_norm", self.max_grad_norm, 0, "choose 0 to turn clipping off")
        for key, value in (("beta1", self.beta1), ("beta2", self.beta2)):
            rule = f"{key} lies in [0, 1)"
            yield Check(0 <= value < 1, rule, f"{key} = {value}", "choose a value such as 0.9")
        yield positive("eps", self.eps, "choose a value such as 1e-8")
        yield Check(
            not is_single(self.learning_rate)
            or not is_single(self.weight_decay)
            or self.learning_rate * self.weight_decay <= 1,
            "learning_rate times weight_decay is at most 1",
            f"learning_rate = {self.learning_rate} with weight_decay = {self.weight_decay}",
            "choose a weight_decay such as 0.01",
        )
        yield Check(
            0 <= self.momentum < 1,
            "momentum lies in [0, 1)",
            f"momentum = {self.momentum}",
            "choose a value such as 0.9, or 0 for none",
        )
        yield Check(
            self.momentum > 0 or not self.nesterov,
            "nesterov needs momentum above 0",
            f"nesterov = true with momentum = {self.momentum}",
            "set momentum such as 0.9, or leave nesterov out",
        )
        yield Check(
            self.name == "sgd" or self.momentum == 0,
            'momentum belongs to name = "sgd"',
            f'momentum = {self.momentum} with name = "{self.name}"',
            'set name = "sgd", or leave momentum out',
        )
        yield at_least("warmup_steps", self.warmup_steps, 0, "choose 0 for none")
        yield Check(
            0 <= self.final_rate_share <= 1,
            "final_rate_share lies in [0, 1]",
            f"final_rate_share = {self.final_rate_share}",
            "choose 0 to end at rate 0",
        )


@dataclass(frozen=True)
class TrainingOptions:
    """The loop.

    Attributes:
        epochs: passes over the data; ``steps`` > 0 overrides it.
        steps: optimizer steps.
        micro_batch: rows handled together.
        accumulation: micro-batches per optimizer step.
        context: most tokens a row may have; 0 takes the model's own, at most 512.
        seed: key of every random stream, 64 bits.
        eval_every: steps between evaluations on held-out data; 0 evaluates at the end only.
        log_every: steps between metric lines.
        threads: CPU workers; 0 takes RETRO_THREADS or all.
    """

    epochs: int = 1
    steps: int = 0
    micro_batch: int = 8
    accumulation: int = 1
    context: int = 0
    seed: int = 0
    eval_every: int = 0
    log_every: int = 1
    threads: int = 0
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)

    def __post_init__(self) -> None:
        """Refuse values outside their domain."""
        enforce("training", typed(self))
        enforce("training", self._checks())

    def _checks(self) -> Iterator[Check]:
        for key, least in (
            ("epochs", 0),
            ("steps", 0),
            ("micro_batch", 1),
            ("accumulation", 1),
            ("eval_every", 0),
            ("log_every", 1),
        ):
            yield at_least(key, getattr(self, key), least, "choose a larger number")
        yield Check(
            self.epochs > 0 or self.steps > 0,
            "epochs or steps is above 0",
            f"epochs = {self.epochs}, steps = {self.steps}",
            "say how long to train, such as epochs = 1",
        )
        for key, most in (
            ("steps", MAX_STEPS),
            ("context", MAX_CONTEXT),
            ("micro_batch", MAX_ROWS),
            ("accumulation", MAX_ROWS),
        ):
            value = getattr(self, key)
            rule = f"{key} is at most {most}"
            yield Check(not value > most, rule, f"{key} = {value}", "choose a smaller number")
        yield Check(
            self.context == 0 or self.context >= 2,
            "context is 0 or at least 2",
            f"context = {self.context}",
            "choose a larger number, or 0 to leave it to the model",
        )
        yield Check(
            0 <= self.seed < 2**64,
            "seed lies in [0, 2^64)",
            f"seed = {self.seed}",
            "choose a seed such as 0",
        )
        yield Check(
            0 <= self.threads <= MAX_THREADS,
            f"threads lies between 0 and {MAX_THREADS}",
            f"threads = {self.threads}",
            "choose 0 to take all processors",
        )
        yield Check(
            self.steps == 0 or self.optimizer.warmup_steps <= self.steps,
            "optimizer.warmup_steps is at most steps",
            f"warmup_steps = {self.optimizer.warmup_steps} with steps = {self.steps}",
            "warm up for fewer steps, or train longer",
        )

    @property
    def rows_per_step(self) -> int:
        """Rows of one optimizer step."""
        return self.micro_batch * self.accumulation


@dataclass(frozen=True)
class OutputOptions:
    """Where the run folder goes: ``dir/name``.

    Attributes:
        dir: folder of runs.
        name: the run; empty takes the name of the run document.
        overwrite: replace an earlier run of the same name.
    """

    dir: Path = Path("runs")
    name: str = ""
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Refuse a name that leaves the folder of runs."""
        enforce("output", typed(self))
        plain = self.name not in (".", "..") and Path(self.name).name == self.name
        plain = plain and self.name.isprintable()
        got, remedy = f"name = {self.name!r}", "put the folder into output.dir"
        rule = "name is the name of one folder"
        enforce("output", [Check(plain or not self.name, rule, got, remedy)])

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.dir / self.name


@dataclass(frozen=True)
class RunDocument:
    """One run: everything that :func:`retrograd.train.run` needs to know.

    Attributes:
        model, data, lora, training, output: the tables.
    """

    model: ModelOptions
    data: DataOptions
    lora: LoraOptions = field(default_factory=LoraOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def __post_init__(self) -> None:
        """Refuse tables that contradict each other."""
        every, data = self.training.eval_every, self.data
        enforce(
            "training",
            [
                Check(
                    every == 0 or data.eval is not None,
                    "eval_every needs held-out data",
                    f"eval_every = {every} without data.eval",
                    "name a file under [data] eval, or leave eval_every out",
                )
            ],
        )
        enforce(
            "data",
            [
                Check(
                    data.eval != data.train,
                    "eval is another file than train",
                    f"{data.eval} for both",
                    "hold some rows out, or leave eval out",
                )
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """The document as JSON values: paths and dates as text."""
        return json.loads(json.dumps(dataclasses.asdict(self), default=plain))
