"""What a side of a paired measurement does, and how it is told to do it.

Each side lives in a process of its own for the whole run, so that both have warmed up once and take
turns; one line of JSON on its standard input asks for a block of steps, one line answers. A side
that waits for its turn blocks in a read and takes no processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

RANK, ALPHA = 8, 16.0
LEARNING_RATE = 2e-4
MAX_GRAD_NORM = 1.0


class BenchError(Exception):
    """A side that did not do the work: no figure may come from it."""


@dataclass(frozen=True)
class Setting:
    """What both sides are measured on.

    Attributes:
        model: GGUF file.
        n_tokens: length of the one row of a step, every token supervised.
        threads: worker threads of a side.
        seed: of the row's token ids.
    """

    model: str
    n_tokens: int
    threads: int
    seed: int


@dataclass(frozen=True)
class Step:
    """One training step as its side saw it.

    Attributes:
        loss: before the update.
        grad_norm: global norm before clipping.
    """

    loss: float
    grad_norm: float


@dataclass(frozen=True)
class Block:
    """Several steps in a row.

    Attributes:
        seconds: wall time of the block.
        processor_s: processor time of the block, all threads.
        peak_bytes: the process's high-water mark of resident memory so far.
        losses, grad_norms: of each step.
    """

    seconds: float
    processor_s: float
    peak_bytes: int
    losses: list[float]
    grad_norms: list[float]


class Side(Protocol):
    """A trainer that can be stepped on the setting's row."""

    def step(self) -> Step:
        """Forward, backward, clipping and AdamW on the row."""
        ...

    def versions(self) -> dict[str, str]:
        """What the figures were made with."""
        ...


def token_row(setting: Setting, vocabulary: int) -> list[int]:
    """The row's ids, drawn from a counter so that both sides see the same."""
    import numpy as np

    draw = np.random.default_rng(setting.seed)
    return [int(i) for i in draw.integers(17, vocabulary, setting.n_tokens)]


def peak_bytes() -> int:
    """VmHWM of this process: what the operating system saw, mapped files included."""
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def serve(side: Side) -> None:
    """Answers blocks until the input ends."""
    print(json.dumps(side.versions()), flush=True)
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        steps = [side.step() for _ in range(int(json.loads(line)))]
        block = Block(
            seconds=time.perf_counter() - wall,
            processor_s=time.process_time() - processor,
            peak_bytes=peak_bytes(),
            losses=[step.loss for step in steps],
            grad_norms=[step.grad_norm for step in steps],
        )
        print(json.dumps(asdict(block)), flush=True)


class Worker:
    """A side's process, seen from the measurement."""

    def __init__(self, name: str, setting: Setting, environment: dict[str, str]) -> None:
        self.name = name
        self.blocks: list[Block] = []
        command = [sys.executable, "-m", f"bench._{name}", json.dumps(asdict(setting))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self) -> Worker:
        self.versions: dict[str, str] = json.loads(self._line())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def run(self, n_steps: int) -> Block:
        """One block of steps."""
        assert self._process.stdin is not None
        print(json.dumps(n_steps), file=self._process.stdin, flush=True)
        block = Block(**json.loads(self._line()))
        self.blocks.append(block)
        return block

    def check(self) -> None:
        """The side really trained.

        Raises:
            BenchError: a gradient was zero or not finite, or the loss did not fall.
        """
        norms = [norm for block in self.blocks for norm in block.grad_norms]
        losses = [loss for block in self.blocks for loss in block.losses]
        if not all(0.0 < norm < float("inf") for norm in norms):
            raise BenchError(f"{self.name}: gradients are not zero and finite; got norms {norms}")
        if not losses[-1] < losses[0]:
            raise BenchError(f"{self.name}: the loss falls; got {losses[0]} to {losses[-1]}")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"{self.name}: the process ended with {self._process.wait()}")
        return line


def environment(threads: int, root: Path, cleared: Sequence[str]) -> dict[str, str]:
    """This process's variables without those that change dispatch, threads set for every pool."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(tuple(cleared))}
    path = os.pathsep.join(part for part in (str(root), kept.get("PYTHONPATH", "")) if part)
    return kept | {
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(threads),
        "RETRO_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }
