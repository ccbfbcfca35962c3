"""Whole runs on the generated model: what is learnt, what is written, what is refused."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from retrograd.config.document import load_document
from retrograd.errors import ConfigError, InternalError, TrainingError
from retrograd.gguf import open_gguf
from retrograd.train import RunResult, Trainer, run
from retrograd.train.trainer import EvalReport
from tests.tiny_runs import metrics, record, state_of, tiny_run, write_run


def quiet() -> Console:
    return Console(file=io.StringIO(), force_terminal=False)


def printed(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, list[str]]:
    console = quiet()
    result = run(tiny_run(tmp_path_factory.mktemp("run")), console=console)
    return result, printed(console)


def test_loss_falls_and_the_base_model_stays(finished: tuple[RunResult, list[str]]) -> None:
    result, _ = finished
    assert result.status == "finished"
    assert result.exit_code == 0
    losses = [line["loss"] for line in metrics(result.folder) if line["event"] == "step"]
    assert len(losses) == 8
    assert losses[-1] < losses[0] - 1.0
    found = record(result.folder)
    assert found["digests"]["base_before"] == found["outputs"]["base_digest_after"]


def test_the_run_folder_holds_what_was_run_and_what_came_of_it(
    finished: tuple[RunResult, list[str]],
) -> None:
    result, _ = finished
    names = sorted(path.name for path in result.folder.iterdir())
    assert names == ["adapter.gguf", "loss.svg", "metrics.jsonl", "run.json"]
    found = record(result.folder)
    model = Path(found["document"]["model"]["path"])
    assert found["status"] == "finished"
    assert found["digests"]["model"] == hashlib.sha256(model.read_bytes()).hexdigest()
    train = Path(found["document"]["data"]["train"])
    assert found["digests"]["train"] == hashlib.sha256(train.read_bytes()).hexdigest()
    adapter = hashlib.sha256(result.adapter.read_bytes()).hexdigest()
    assert found["outputs"]["adapter"] == {"path": "adapter.gguf", "sha256": adapter}
    assert found["document"]["training"]["optimizer"]["learning_rate"] == 2e-2
    assert found["plan"]["rows"] == 8
    assert found["plan"]["steps_per_epoch"] == 2
    # Rank 4 on width 64, 2 of 4 heads for k and v, feed-forward 128: 4 (in + out) for each weight.
    assert found["plan"]["trained_parameters"] == 4 * (128 + 96 + 96 + 128 + 3 * 192)
    assert found["figures"]["steps"] == 8
    assert (found["figures"]["epoch"], found["figures"]["cursor"]) == (4, 0)
    assert found["kernel_rows"] == {row: state_of(row) for row in found["kernel_rows"]}
    assert "adamw.step.f32.cpu" in found["kernel_rows"]
    assert found["versions"]["numpy"]
    assert found["device"]["threads"] == 1
    assert (result.folder / "loss.svg").read_text().startswith("<?xml")


def test_metrics_have_a_line_for_each_step_and_evaluation(
    finished: tuple[RunResult, list[str]],
) -> None:
    lines = metrics(finished[0].folder)
    kinds = [(line["event"], line["step"]) for line in lines]
    assert kinds == [("step", i) for i in (1, 2, 3, 4)] + [("eval", 4)] + [
        ("step", i) for i in (5, 6, 7, 8)
    ] + [("eval", 8)]
    assert [line["epoch"] for line in lines if line["event"] == "step"] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(line["supervised_tokens"] > 0 for line in lines)
    assert lines[0]["learning_rate"] == 2e-2
    assert lines[-1]["loss"] < lines[4]["loss"] + 0.5


def test_plain_lines_state_the_plan_and_the_steps(finished: tuple[RunResult, list[str]]) -> None:
    _, lines = finished
    text = "\n".join(lines)
    assert "train: 8 rows" in text
    assert "steps: 8 (4 epochs), 2 rows x 2 micro-batches each" in text
    assert "trained: 4,096 parameters in 14 tensors" in text
    assert re.search(r"memory: .* planned: weights .*, activations ", text)
    assert state_of("adamw.step.f32.cpu") in text
    assert "1 requested, 1 effective" in text
    step = r"step 8/8  loss \d\.\d{4}  \d+ tokens/s  ETA 0:00  peak \d+\.\d MB"
    assert any(re.fullmatch(step, line) for line in lines)
    assert "step 8: held-out loss" in text


def test_the_adapter_answers_as_the_run_ended(finished: tuple[RunResult, list[str]]) -> None:
    result, _ = finished
    found = record(result.folder)
    document = tiny_run(result.folder.parent.parent)
    trainer = Trainer(document.model.path, training=document.training)
    trainer.load_adapter(result.adapter)
    from retrograd.text import load_examples

    held_out = load_examples(str(document.data.eval), trainer.tokenizer, max_tokens=64)
    loss = trainer.evaluate(held_out.examples).loss
    assert abs(loss - found["figures"]["held_out_loss"]) < 1e-6
    assert open_gguf(result.adapter).require("adapter.type", str) == "lora"


def test_two_runs_of_one_document_are_equal(tmp_path: Path) -> None:
    first = run(tiny_run(tmp_path, {"output.name": "a", "training.steps": 3}), console=quiet())
    second = run(tiny_run(tmp_path, {"output.name": "b", "training.steps": 3}), console=quiet())
    assert first.adapter.read_bytes() == second.adapter.read_bytes()
    assert [line["loss"] for line in metrics(first.folder)] == [
        line["loss"] for line in metrics(second.folder)
    ]
    other = {"output.name": "c", "training.steps": 3, "training.seed": 1}
    third = run(tiny_run(tmp_path, other), console=quiet())
    assert third.adapter.read_bytes() != first.adapter.read_bytes()


def test_a_used_run_folder_is_refused_by_name_and_replaced_only_when_asked(tmp_path: Path) -> None:
    document = tiny_run(tmp_path, {"training.steps": 1})
    folder = document.output.folder
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("old\n")
    (folder / "notes.txt").write_text("mine\n")
    with pytest.raises(ConfigError) as refused:
        run(document, console=quiet())
    assert str(folder) in str(refused.value)
    assert (folder / "metrics.jsonl").read_text() == "old\n"
    asked = tiny_run(tmp_path, {"training.steps": 1, "output.overwrite": True})
    run(asked, console=quiet())
    assert [line["event"] for line in metrics(folder)] == ["step", "eval"]
    assert (folder / "notes.txt").read_text() == "mine\n"


def test_an_adapter_is_continued_but_not_replaced_by_its_own_run(tmp_path: Path) -> None:
    first = run(tiny_run(tmp_path, {"output.name": "a"}), console=quiet())
    own = {"output.name": "a", "output.overwrite": True, "model.adapter": str(first.adapter)}
    with pytest.raises(ConfigError, match="does not lie in the run folder"):
        run(tiny_run(tmp_path, own), console=quiet())
    on = {"output.name": "b", "model.adapter": str(first.adapter), "training.steps": 1}
    second = run(tiny_run(tmp_path, on), console=quiet())
    before, after = metrics(first.folder)[0]["loss"], metrics(second.folder)[0]["loss"]
    assert after < before - 1.0


def test_rules_that_need_the_open_model_are_checked_before_anything_is_written(
    tmp_path: Path,
) -> None:
    long_warm_up = {"training.steps": 0, "training.optimizer.warmup_steps": 3}
    with pytest.raises(ConfigError, match="3 with 2 steps"):
        run(tiny_run(tmp_path, long_warm_up), console=quiet())
    with pytest.raises(ConfigError, match="context"):
        run(tiny_run(tmp_path, {"training.context": 257}), console=quiet())
    assert not (tmp_path / "runs").exists()


def test_a_diverged_run_is_named_and_leaves_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.train_step

    def diverge(self: Trainer, rows: Any) -> object:
        if self.step == 2:
            raise TrainingError("train", "loss and gradients are finite", "loss nan", "lower it")
        return step(self, rows)

    monkeypatch.setattr(Trainer, "train_step", diverge)
    document, console = tiny_run(tmp_path), quiet()
    with pytest.raises(TrainingError, match="loss nan"):
        run(document, console=console)
    assert printed(console)[-1].startswith("failed after 2 steps")
    folder = document.output.folder
    assert [line["step"] for line in metrics(folder)] == [1, 2]
    found = record(folder)
    assert found["status"] == "failed"
    assert found["outputs"]["error"].startswith("TrainingError: [train] loss and gradients")
    assert found["figures"]["steps"] == 2
    assert open_gguf(folder / "adapter.gguf").require("adapter.type", str) == "lora"
    assert (folder / "loss.svg").is_file()


def test_a_held_out_loss_that_is_not_finite_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "evaluate", lambda *_: EvalReport(float("nan"), 3))
    document = tiny_run(tmp_path)
    with pytest.raises(TrainingError, match="nan after step 4"):
        run(document, console=quiet())
    assert record(document.output.folder)["figures"]["held_out_loss"] is None


def test_held_out_rows_that_are_trained_on_are_counted(tmp_path: Path) -> None:
    path, console = write_run(tmp_path), quiet()
    held_out = tmp_path / "heldout.jsonl"
    seen = (tmp_path / "train.jsonl").read_text().splitlines()[0]
    held_out.write_text(held_out.read_text() + seen + "\n")
    run(load_document(path, overrides={"training.steps": 1}), console=console)
    assert "; 1 of them are trained on as well" in "\n".join(printed(console))


def test_a_changed_base_model_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(("before", "after"))
    monkeypatch.setattr(Trainer, "base_digest", lambda self: next(digests))  # noqa: ARG005
    document = tiny_run(tmp_path, {"training.steps": 1})
    with pytest.raises(InternalError, match="weights stay as they are"):
        run(document, console=quiet())
    assert record(document.output.folder)["status"] == "failed"


def test_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    run(tiny_run(tmp_path, {"training.steps": 2}), console=console)
    text = "\n".join(printed(console))
    assert "step 2/2" in text
    assert "tokens/s" in text
    assert "ETA" in text
    assert "peak" in text
