"""The loop: one run from its document to its folder.

``run.json`` is written when the run begins, with status ``running``, and again when it ends, with
status ``finished``, ``interrupted`` or ``failed``; a run that was killed still says ``running``.
"""

import math
import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrograd.config.options import RunDocument
from retrograd.errors import InternalError, RetrogradError, TrainingError
from retrograd.gguf import replace_file
from retrograd.train.folder import RunFolder, check_free
from retrograd.train.inputs import Inputs, heading, open_inputs
from retrograd.train.interrupt import Interrupts
from retrograd.train.plot import draw_losses
from retrograd.train.progress import Progress, Tick, duration, open_progress, peak_rss_bytes
from retrograd.train.record import Record, file_sha256
from retrograd.train.state import LoopState
from retrograd.train.trainer import EvalReport, StepReport

if TYPE_CHECKING:
    from rich.console import Console

RESERVED_BYTES = 1 << 18  # for the loss curve, run.json and the head of the adapter

Status = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class RunResult:
    """What a run left behind.

    Attributes:
        status: ``finished``, or ``interrupted`` by Ctrl-C or another request to end.
        folder: the run folder.
        adapter: the exported adapter.
        plot: the loss curve.
        figures: as in run.json: steps, first and last loss, tokens/s, peak memory and so on.
        exit_code: what the process should end with.
    """

    status: Status
    folder: Path
    adapter: Path
    plot: Path
    figures: Mapping[str, object]
    exit_code: int = 0


def run(document: RunDocument, *, console: "Console | None" = None) -> RunResult:
    """Train as a document says, and write the run folder.

    Ctrl-C, SIGTERM or SIGHUP finishes the step under way, writes what there is and gives status
    ``interrupted``; a second one ends the process at once. An error in the middle leaves the folder
    with status ``failed`` and is raised again.

    Args:
        document: from :func:`retrograd.config.document.load_document`, or made in Python.
        console: where to report; default is standard output, with a bar on a terminal.

    Raises:
        RetrogradError: a file, an option or the data cannot be used; or loss or gradients are not
            finite (:class:`~retrograd.errors.TrainingError`).
    """
    check_free(document)
    inputs = open_inputs(document)
    progress = open_progress(inputs.total_steps, heading(document, inputs), console)
    first = "stopping: the step under way is finished and written; press again to stop at once"
    with (
        closing(progress),
        Interrupts(lambda: progress.say(first), _show_cursor) as interrupts,
        closing(RunFolder(document.output.folder)) as folder,
    ):
        loop = _Loop(document, inputs, folder, progress, interrupts)
        try:
            loop.train()
            result = loop.finish("interrupted" if interrupts.requested else "finished")
        except BaseException as error:
            loop.fail(error)
            raise
    for line in _ending(result):
        progress.say(line)
    return result


class _Loop:
    """A run between its first step and its end.

    Attributes:
        state: where the run stands; with the document, all that decides what comes next.
    """

    def __init__(
        self,
        document: RunDocument,
        inputs: Inputs,
        folder: RunFolder,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        self.document = document
        self.inputs = inputs
        self.folder = folder
        self.progress = progress
        self.interrupts = interrupts
        self.state = LoopState()
        self.losses: list[tuple[int, float]] = []
        self.held_out: list[tuple[int, float]] = []
        self.tokens = 0
        self.seconds = 0.0
        self.started = time.monotonic()
        self.record = Record.of(document, inputs)
        factors = inputs.trainer.parameters().values()
        folder.reserve(sum(factor.nbytes for factor in factors) + RESERVED_BYTES)
        folder.record(self.record.running())

    def train(self) -> None:
        """Every step of the run, with its evaluations; returns early after Ctrl-C."""
        every, total = self.document.training.eval_every, self.inputs.total_steps
        while self.state.step < total and not self.interrupts.requested:
            rows, after = self.inputs.feed.take(self.state)
            report = self.inputs.trainer.train_step(rows)
            self._note(report)
            self.state = after
            if self.state.step == total or (every and self.state.step % every == 0):
                self._evaluate()

    def finish(self, status: Status) -> RunResult:
        """Write everything, and see that the base model is what it was.

        Raises:
            InternalError: a frozen weight changed.
        """
        # Taken first: the plot's library counts neither as training time nor as its memory.
        figures = self._figures()
        self.folder.release()
        adapter = self.inputs.trainer.save_adapter(self.folder.adapter)
        self._draw()
        now, before = self.inputs.trainer.base_digest(), self.record.base_digest
        if now != before:
            rule = "the base model's weights stay as they are"
            remedy = "train again if the model's file was written to; otherwise report this"
            raise InternalError("train", rule, f"digest {now} after {before}", remedy)
        outputs = {
            "adapter": {"path": adapter.name, "sha256": file_sha256(adapter)},
            "plot": self.folder.plot.name,
            "base_digest_after": now,
        }
        self.folder.record(self.record.ended(status, figures, outputs))
        code = self.interrupts.exit_code if status == "interrupted" else 0
        return RunResult(status, self.folder.path, adapter, self.folder.plot, figures, code)

    def fail(self, error: BaseException) -> None:
        """Write what there is, whatever else is wrong; the error itself is the caller's."""
        outputs: dict[str, object] = {"error": f"{type(error).__name__}: {error}"}
        try:
            self.folder.release()
            adapter = self.inputs.trainer.save_adapter(self.folder.adapter)
            outputs["adapter"] = {"path": adapter.name, "sha256": file_sha256(adapter)}
        except (RetrogradError, OSError) as second:
            outputs["adapter_error"] = str(second)
        try:
            # run.json first: a plot that fails must not leave a run that seems to be running.
            self.folder.record(self.record.ended("failed", self._figures(), outputs))
            self._draw()
            steps = self.state.step
            self.progress.say(f"failed after {steps} steps; what there is: {self.folder.path}")
        except (RetrogradError, OSError) as second:
            error.add_note(f"the run folder {self.folder.path} is incomplete: {second}")

    def _note(self, report: StepReport) -> None:
        self.losses.append((report.step, report.loss))
        self.tokens += report.tokens
        self.seconds += report.seconds
        total, peak = self.inputs.total_steps, peak_rss_bytes()
        every = self.document.training.log_every
        logged = report.step % every == 0 or report.step in (1, total)
        rate = self.tokens / self.seconds
        eta_s = self.seconds / report.step * (total - report.step)
        if logged or self.interrupts.requested:
            self.folder.metric(
                {
                    "event": "step",
                    "step": report.step,
                    "epoch": self.state.epoch,
                    "loss": report.loss,
                    "learning_rate": report.learning_rate,
                    "grad_norm": report.grad_norm,
                    "supervised_tokens": report.supervised_tokens,
                    "tokens": report.tokens,
                    "seconds": report.seconds,
                    "peak_rss_bytes": peak,
                }
            )
        self.progress.step(Tick(report.step, total, report.loss, rate, eta_s, peak), logged=logged)

    def _evaluate(self) -> None:
        """Loss on held-out data; left out when there is none or Ctrl-C comes in between."""
        data = self.inputs.held_out
        if data is None:
            return
        start, total, count = time.monotonic(), 0.0, 0
        chunk = self.document.training.micro_batch
        for first in range(0, len(data), chunk):
            if self.interrupts.requested:
                return
            rows = data.examples[first : first + chunk]
            report: EvalReport = self.inputs.trainer.evaluate(rows)
            total += report.loss * report.supervised_tokens
            count += report.supervised_tokens
        step, loss = self.state.step, total / count
        if not math.isfinite(loss):
            rule, remedy = "the held-out loss is finite", "lower the learning rate"
            raise TrainingError("train", rule, f"{loss} after step {step}", remedy)
        self.held_out.append((step, loss))
        self.folder.metric(
            {
                "event": "eval",
                "step": step,
                "epoch": self.state.epoch,
                "loss": loss,
                "supervised_tokens": count,
                "seconds": time.monotonic() - start,
            }
        )
        self.progress.say(f"step {step}: held-out loss {loss:.4f}")

    def _draw(self) -> None:
        with self.folder.written(), replace_file(self.folder.plot) as fresh:
            draw_losses(
                fresh,
                title=f"{self.document.output.name} on {self.document.model.path.name}",
                train=self.losses,
                held_out=self.held_out,
            )

    def _figures(self) -> dict[str, object]:
        return {
            "steps": self.state.step,
            "epoch": self.state.epoch,
            "cursor": self.state.cursor,
            "first_loss": self.losses[0][1] if self.losses else None,
            "last_loss": self.losses[-1][1] if self.losses else None,
            "held_out_loss": self.held_out[-1][1] if self.held_out else None,
            "tokens": self.tokens,
            "tokens_per_s": self.tokens / self.seconds if self.seconds else None,
            "training_seconds": self.seconds,
            "seconds": time.monotonic() - self.started,
            "peak_rss_bytes": peak_rss_bytes(),
        }


def _ending(result: RunResult) -> list[str]:
    figures = result.figures
    took = duration(float(str(figures["seconds"])))
    return [
        f"{result.status} after {figures['steps']} steps in {took}; the base model is unchanged",
        f"adapter: {result.adapter}",
        f"loss curve: {result.plot}",
    ]


def _show_cursor() -> None:
    """A progress bar hides the cursor, and a process that ends at once cannot tidy up after it."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
