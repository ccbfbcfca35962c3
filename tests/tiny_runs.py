"""Runs on the generated model, small enough for every commit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fixtures.tiny import recipe, write
from retrograd.admission import Judge
from retrograd.backends import open_device
from retrograd.config import RunDocument
from retrograd.config.document import load_document

DOCUMENT = """
[model]
path = "{model}"
[data]
train = "train.jsonl"
eval = "heldout.jsonl"
[lora]
rank = 4
[training]
steps = 8
micro_batch = 2
accumulation = 2
context = 64
eval_every = 4
threads = 1
[training.optimizer]
learning_rate = 2e-2
warmup_steps = 1
"""
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def write_run(folder: Path) -> Path:
    """A model, data and a run document in one folder; returns the document."""
    model = write(recipe(layers=1), folder)
    for name, words in (("train", WORDS[:8]), ("heldout", WORDS[8:])):
        rows = [{"prompt": f"{word} =", "completion": f" {len(word)}"} for word in words]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    path = folder / "tiny.toml"
    path.write_text(DOCUMENT.format(model=model.name), encoding="utf-8")
    return path


def tiny_run(folder: Path, overrides: Mapping[str, object] | None = None) -> RunDocument:
    """The checked document of such a run."""
    return load_document(write_run(folder), overrides=overrides)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def record(folder: Path) -> dict[str, Any]:
    """A run's run.json."""
    return json.loads((folder / "run.json").read_text())


def state_of(row: str) -> str:
    """What the package's own evidence says of a kernel row on this machine."""
    return Judge(open_device(threads=1)).row(row).state
