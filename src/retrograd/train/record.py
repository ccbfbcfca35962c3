"""run.json: what was run, with what, and what came of it."""

import datetime
import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from retrograd.config.options import RunDocument
from retrograd.train.graphs import Kind
from retrograd.train.inputs import Inputs
from retrograd.train.trainer import Trainer
from retrograd.version import VERSION

SCHEMA = 1
SMALLEST_STEP_TOKENS = 8
PACKAGES = ("numpy", "gguf", "tokenizers", "jinja2", "scipy-openblas32")


@dataclass(frozen=True)
class Record:
    """The part of run.json that is known before the first step.

    Attributes:
        base_digest: SHA-256 over the base model's weights in memory.
        known: the keys of run.json.
    """

    base_digest: str
    known: Mapping[str, object] = field(repr=False)

    @classmethod
    def of(cls, document: RunDocument, inputs: Inputs) -> "Record":
        """Collect versions, digests and the plan of a run."""
        trainer, held_out = inputs.trainer, inputs.held_out
        digest = trainer.base_digest()
        known: dict[str, object] = {
            "schema": SCHEMA,
            "started": _now(),
            "document": document.to_json(),
            "versions": {
                "retrograd": VERSION,
                "python": platform.python_version(),
                "platform": platform.platform(),
                **{name: version(name) for name in PACKAGES},
            },
            "device": dict(trainer.session.device.probe()),
            "kernel_rows": row_states(trainer),
            "digests": {
                "model": trainer.session.file.digest(),
                "base_before": digest,
                "train": file_sha256(inputs.train.path),
                "eval": held_out and file_sha256(held_out.path),
            },
            "plan": {
                "rows": len(inputs.train),
                "tokens": inputs.train.n_tokens,
                "supervised_tokens": inputs.train.n_supervised,
                "held_out_rows": held_out and len(held_out),
                "steps": inputs.total_steps,
                "steps_per_epoch": inputs.feed.steps_per_epoch,
                "trained_parameters": sum(f.size for f in trainer.parameters().values()),
                "memory_bytes": trainer.memory(),
            },
        }
        return cls(digest, known)

    def running(self) -> dict[str, object]:
        """run.json of a run that has begun."""
        return {"status": "running", **self.known}

    def ended(
        self, status: str, figures: Mapping[str, object], outputs: Mapping[str, object]
    ) -> dict[str, object]:
        """run.json of a run that is over."""
        ended = {"ended": _now(), "figures": dict(figures), "outputs": dict(outputs)}
        return {"status": status, **self.known, **ended}


def row_states(trainer: Trainer) -> dict[str, str]:
    """State of every kernel row that a training step of this trainer uses, by row id."""
    program = trainer.session.program(Kind.TRAIN, SMALLEST_STEP_TOKENS)
    return {row: entry.state for row, entry in program.admitted.items()}


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
