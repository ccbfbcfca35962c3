"""What a person watches: a progress bar on a terminal, plain lines elsewhere."""

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Tick:
    """The figures of one step.

    Attributes:
        step: steps done.
        total: steps of the run.
        loss: nats per supervised token.
        tokens_per_s: training tokens per second since the start of the run.
        eta_s: seconds of training steps left.
        peak_rss_bytes: most memory the process has held.
    """

    step: int
    total: int
    loss: float
    tokens_per_s: float
    eta_s: float
    peak_rss_bytes: int


class Progress(Protocol):
    """Where a run tells how it goes."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def step(self, tick: Tick, *, logged: bool) -> None:
        """A step is done; ``logged`` steps are those written to metrics.jsonl."""
        ...

    def close(self) -> None:
        """The run is over; the terminal is as it was."""
        ...


class Lines:
    """Plain lines, one for each logged step."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def say(self, line: str) -> None:
        try:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            # A run may be watched through a pipe: every line is there when it is true.
            self._console.file.flush()
        except OSError:
            _nobody_reads(self._console)

    def step(self, tick: Tick, *, logged: bool) -> None:
        if logged:
            self.say(
                f"step {tick.step}/{tick.total}  loss {tick.loss:.4f}"
                f"  {tick.tokens_per_s:.0f} tokens/s  ETA {duration(tick.eta_s)}"
                f"  peak {size(tick.peak_rss_bytes)}"
            )

    def close(self) -> None:
        try:
            self._console.file.flush()
        except OSError:
            _nobody_reads(self._console)


class Bar:
    """A rich progress bar that shows the newest figures."""

    def __init__(self, console: "Console", total: int) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._console = console
        self._bar = RichProgress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            # The bar takes what the figures leave of the terminal's width.
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("train", total=total, figures="")
        self._bar.start()

    def say(self, line: str) -> None:
        try:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        except OSError:
            _nobody_reads(self._console)

    def step(self, tick: Tick, *, logged: bool) -> None:
        del logged
        figures = (
            f"loss {tick.loss:.4f} · {tick.tokens_per_s:.0f} tokens/s"
            f" · ETA {duration(tick.eta_s)} · peak {size(tick.peak_rss_bytes)}"
        )
        try:
            self._bar.update(self._task, completed=tick.step, figures=figures)
        except OSError:
            _nobody_reads(self._console)

    def close(self) -> None:
        try:
            self._bar.stop()
        except OSError:
            _nobody_reads(self._console)


def _nobody_reads(console: "Console") -> None:
    """The terminal or pipe is gone, or its disk is full: the run goes on, its folder tells all."""
    console.file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 — as long as the console


def open_progress(total: int, heading: Iterable[str], console: "Console | None" = None) -> Progress:
    """Print the plan of a run and start to show its progress.

    Args:
        total: steps of the run.
        heading: lines to print first.
        console: where to; default is standard output.
    """
    from rich.console import Console

    console = console or Console(file=sys.stdout)
    # The console itself would end the process when a pipe is closed, and the run with it.
    console.on_broken_pipe = partial(_nobody_reads, console)
    lines = Lines(console)
    for line in heading:
        lines.say(line)
    return Bar(console, total) if console.is_terminal else lines


def peak_rss_bytes() -> int:
    """The most memory this process has held, in bytes (Linux counts it in KiB)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def size(n_bytes: float) -> str:
    """Bytes as a person reads them: ``98.4 MB``, powers of 1000."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.2f} GB"


def duration(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
