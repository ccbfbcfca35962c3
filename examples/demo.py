"""The whole path in one program: ask a model, train a LoRA on what it fails, ask it again.

    python examples/demo.py            the real model, about 98 MB, fetched once and verified
    python examples/demo.py --tiny     a generated model of a few hundred kilobytes; learns nothing

It asks the model every held-out question before and after training, and counts the answers that are
right character by character. The answers after training come from the exported adapter.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrograd import Trainer, TrainingOptions
from retrograd.config.document import load_document
from retrograd.errors import RetrogradError
from retrograd.train import RunResult, run

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "dictation"
NAME = "dictation"
# What the demo promises of the real model.
MOST_BEFORE, LEAST_AFTER = 0.10, 0.80
SAMPLES = 3
ANSWER_TOKENS = 20
CONTEXT = 256
TINY: Mapping[str, object] = {
    "training.steps": 8,
    "training.micro_batch": 4,
    "training.context": CONTEXT,
    "training.log_every": 2,
    "training.optimizer.warmup_steps": 2,
    "training.optimizer.learning_rate": 1e-2,
}
TINY_QUESTIONS = 8


@dataclass(frozen=True)
class Question:
    """A held-out row: what is said, and the one right record."""

    system: str
    spoken: str
    record: str


@dataclass(frozen=True)
class Plan:
    """What this call of the demo does.

    Attributes:
        promised: whether the accuracy figures are judged.
    """

    model: Path
    overrides: Mapping[str, object]
    questions: Sequence[Question]
    promised: bool


def main(arguments: list[str]) -> int:
    """Run the demo; 1 when the real model does not learn what it should."""
    parser = argparse.ArgumentParser(description="Ask a model, train it, ask it again.")
    parser.add_argument("--tiny", action="store_true", help="a generated model, no download")
    parser.add_argument("--model", type=Path, help="another GGUF file; accuracy is not judged")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="folder of runs")
    parser.add_argument("--seed", type=int, default=0, help="key of every random stream")
    chosen = parser.parse_args(arguments)
    try:
        plan = prepare(tiny=chosen.tiny, model=chosen.model, out=chosen.out, seed=chosen.seed)
        return demonstrate(plan)
    except RetrogradError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def prepare(*, tiny: bool, model: Path | None, out: Path, seed: int) -> Plan:
    """Get the model and the questions.

    Raises:
        RetrogradError: the model cannot be fetched or is not what it should be.
    """
    # The generators of fixtures live in the repository and not in the installed package.
    sys.path.insert(0, str(ROOT))
    from fixtures import real_model
    from fixtures import tiny as tiny_model

    out = out.resolve()
    questions = read_questions(DATA / "heldout.jsonl")
    if model is not None:
        path = model.resolve()
    elif tiny:
        path = tiny_model.write(tiny_model.recipe(), out / "models")
    else:
        print("fetching the model unless it is here already")
        path = real_model.fetch()
    overrides: dict[str, object] = {
        "model.path": str(path),
        "output.dir": str(out),
        "output.name": f"{NAME}-tiny" if tiny else NAME,
        "output.overwrite": True,
        "training.seed": seed,
        **(TINY if tiny else {}),
    }
    questions = questions[:TINY_QUESTIONS] if tiny else questions
    return Plan(path, overrides, questions, promised=not tiny and model is None)


def read_questions(path: Path) -> list[Question]:
    """The held-out rows."""
    rows = (json.loads(line)["messages"] for line in path.read_text("utf-8").splitlines())
    return [Question(*(message["content"] for message in row)) for row in rows]


def demonstrate(plan: Plan) -> int:
    """Ask, train, ask again, and say what changed."""
    start = time.monotonic()
    document = load_document(DATA / "run.toml", overrides=plan.overrides)
    before = timed("before", lambda: answers(plan, adapter=None))
    result = run(document)
    if result.exit_code:
        return result.exit_code
    after = timed("after", lambda: answers(plan, adapter=result.adapter))
    shares = share_right(plan.questions, before), share_right(plan.questions, after)
    print_samples(plan.questions, before, after)
    command = question_command(plan, result.adapter)
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    report = {
        "exact_match_before": shares[0],
        "exact_match_after": shares[1],
        "tokens_per_s": result.figures["tokens_per_s"],
        "peak_rss_bytes": result.figures["peak_rss_bytes"],
        "adapter": str(result.adapter),
        "plot": str(result.plot),
        "questions": len(plan.questions),
        "seconds": time.monotonic() - start,
        "asked": plan.questions[0].spoken,
        "answered": answer,
    }
    (result.folder / "demo.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print_report(report, result, command)
    return verdict(plan, *shares)


def timed(when: str, ask: Callable[[], list[str]]) -> list[str]:
    """Answers of a model, with the time they took."""
    print(f"{when} training: asking every held-out question", flush=True)
    start = time.monotonic()
    got = ask()
    print(f"{when} training: {len(got)} questions in {time.monotonic() - start:.0f} s", flush=True)
    return got


def answers(plan: Plan, *, adapter: Path | None) -> list[str]:
    """The model's greedy answer to every question, without or with an adapter file."""
    trainer = Trainer(plan.model, training=TrainingOptions(context=CONTEXT))
    if adapter is not None:
        trainer.load_adapter(adapter)
    (system,) = {question.system for question in plan.questions}
    spoken = [question.spoken for question in plan.questions]
    completions = trainer.generate(spoken, system=system, max_tokens=ANSWER_TOKENS)
    return [completion.text.strip() for completion in completions]


def share_right(questions: Sequence[Question], given: Sequence[str]) -> float:
    """Share of answers equal to the record, character by character."""
    pairs = zip(questions, given, strict=True)
    return sum(question.record == answer for question, answer in pairs) / len(questions)


def question_command(plan: Plan, adapter: Path) -> list[str]:
    """The command that asks the first question with the exported adapter."""
    question = plan.questions[0]
    command = [sys.executable, "-m", "retrograd", "generate", str(plan.model)]
    command += ["--adapter", str(adapter), "--system", question.system]
    return [*command, "--prompt", question.spoken, "--max-tokens", str(ANSWER_TOKENS)]


def print_samples(questions: Sequence[Question], before: list[str], after: list[str]) -> None:
    """A few answers side by side, spread over the questions."""
    from rich.console import Console
    from rich.table import Table

    table = Table("said", "right record", "before training", "after training", title="held out")
    for i in range(0, len(questions), max(len(questions) // SAMPLES, 1))[:SAMPLES]:
        cells = questions[i].spoken, questions[i].record, before[i], after[i]
        # Shown as they are: a model may write what would be markup or move the cursor.
        table.add_row(*(repr(cell)[1:-1].replace("[", r"\[") for cell in cells))
    Console().print(table)


def print_report(report: Mapping[str, object], result: RunResult, command: list[str]) -> None:
    """The figures, and how to go on."""
    peak = float(str(report["peak_rss_bytes"])) / 1e6
    print(f"exact match before training: {report['exact_match_before']:.1%}")
    print(f"exact match after training:  {report['exact_match_after']:.1%}")
    print(f"training: {report['tokens_per_s']:.0f} tokens/s, peak memory {peak:.0f} MB")
    print(f"adapter:    {result.adapter}")
    print(f"loss curve: {result.plot}")
    print(f"figures:    {result.folder / 'demo.json'}")
    print(f"asked through the command line: {report['asked']!r} -> {report['answered']!r}")
    print(f"ask it yourself:\n  {shlex.join(['retrograd', *command[3:]])}")


def verdict(plan: Plan, before: float, after: float) -> int:
    """0 unless the real model was too good before or not good enough after."""
    if not plan.promised or (before < MOST_BEFORE and after > LEAST_AFTER):
        return 0
    rule = f"exact match rises from under {MOST_BEFORE:.0%} to over {LEAST_AFTER:.0%}"
    got = f"{before:.1%} and {after:.1%}"
    print(f"[demo] {rule}; got {got}; report this with run.json", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
