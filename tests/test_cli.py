"""The command line: what it prints, and its exit codes."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest

import retrograd
from fixtures.tiny import recipe, write
from retrograd.cli import app as command_line
from retrograd.cli.app import report_fault, run
from retrograd.errors import ConfigError, InternalError
from retrograd.gguf import TensorData, write_gguf
from retrograd.train import Trainer
from tests.house import ROOT
from tests.tiny_runs import record, state_of, write_run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(recipe(layers=1, arch="llama", format="q4_1"), tmp_path_factory.mktemp("model"))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("inspect", "train", "generate"))


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"retrograd {retrograd.__version__}\n"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]


def test_public_names_come_from_one_place() -> None:
    assert retrograd.Trainer is Trainer
    assert sorted(retrograd.__all__) == dir(retrograd)
    assert retrograd.errors.ConfigError is ConfigError
    for name in retrograd.__all__:
        assert getattr(retrograd, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Trainr'"):
        retrograd.__getattr__("Trainr")


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import retrograd", ("numpy", "pydantic", "typer", "rich", "tokenizers")),
        (
            "from retrograd.cli.app import run; run(['--help'])",
            ("numpy", "pydantic", "rich.console", "tokenizers", "matplotlib"),
        ),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(
    statement: str, absent: tuple[str, ...]
) -> None:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert loaded & set(absent) == set()


def test_inspect_says_what_a_model_is(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines]
    assert lines[2] == f"architecture: llama, {70_336:,} parameters"
    assert ["q4_1", "9", "43,840"] in rows
    assert ["f32", "3", "768"] in rows
    assert ["chat_template", "yes"] in rows
    assert ["n_layers", "1"] in rows
    state = state_of("matmul.backward.q4_1-f32.cpu")
    assert ["matmul.backward.q4_1-f32.cpu", *state.split()] in rows


def test_inspect_as_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == model.stat().st_size
    assert found["model"]["width"] == 64
    assert [row["format"] for row in found["formats"]] == ["q4_1", "f32"]
    assert found["tokenizer"]["end_of_turn"] == ["<|endoftext|>", "<|im_end|>"]
    assert found["kernel_rows"]["adamw.step.f32.cpu"] == state_of("adamw.step.f32.cpu")


def test_inspect_shows_a_model_that_cannot_be_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    path = tmp_path / "other.gguf"
    metadata = {"general.architecture": "gptneox"}
    tensor = TensorData.f32("token_embd.weight", np.zeros((4, 8), np.float32))
    write_gguf(path, metadata=metadata, tensors=[tensor])
    assert run(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "model: refused: [gguf] the architecture is one of: llama, qwen2, qwen3" in text
    assert "kernel rows of a LoRA run: refused:" in text


def test_generate_prints_what_the_trainer_gives(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Trainer(model, training=retrograd.TrainingOptions(context=256))
    (expected,) = trainer.generate("hello", max_tokens=6, system="be brief")
    arguments = ["generate", str(model), "--prompt", "hello", "--max-tokens", "6"]
    assert run([*arguments, "--system", "be brief"]) == 0
    assert capsys.readouterr().out == expected.text + "\n"
    (raw,) = trainer.generate("hello", max_tokens=6, chat=False)
    assert run([*arguments, "--raw"]) == 0
    assert capsys.readouterr().out == raw.text + "\n"
    assert raw.text != expected.text
    sampled = ["--temperature", "1.5", "--top-p", "0.9", "--top-k", "50", "--seed", "3"]
    (drawn,) = trainer.generate("hello", max_tokens=6, temperature=1.5, top_p=0.9, top_k=50, seed=3)
    assert run([*arguments, *sampled]) == 0
    assert capsys.readouterr().out == drawn.text + "\n"


def test_train_then_generate_with_the_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = write_run(tmp_path)
    assert run(["train", str(document), "--set", "output.name=by-hand"]) == 0
    folder = tmp_path / "runs" / "by-hand"
    assert record(folder)["status"] == "finished"
    model = next(tmp_path.glob("*.gguf"))
    capsys.readouterr()
    arguments = ["generate", str(model), "--raw", "--prompt", "three =", "--max-tokens", "2"]
    assert run(arguments) == 0
    plain = capsys.readouterr().out
    assert run([*arguments, "--adapter", str(folder / "adapter.gguf")]) == 0
    assert capsys.readouterr().out != plain


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["trian", "x"], "No such command 'trian'"),
        (["train"], "Missing argument"),
        (["train", "absent.toml"], "[config] a run document can be read"),
        (["train", "absent.toml", "--set", "seed"], "KEY=VALUE"),
        (["inspect", "absent.gguf"], "[gguf] the model file can be read"),
        (["generate", "absent.gguf"], "Missing option '--prompt'"),
        (["generate", "absent.gguf", "--prompt", "x"], "[gguf] the model file can be read"),
        (["generate", "m", "--prompt", "x", "--raw", "--system", "y"], "--system belongs to"),
        (["generate", "m", "--prompt", "x", "--top-k", "many"], "valid integer"),
    ],
)
def test_a_mistake_of_the_user_is_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_fault_of_ours_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise InternalError("graph", "shapes agree", "(3,)", "report this")

    monkeypatch.setattr("retrograd.gguf.open_gguf", fail)
    assert run(["inspect", "m.gguf"]) == 1
    assert capsys.readouterr().err == "[graph] shapes agree; got (3,); report this\n"


def test_ctrl_c_outside_a_step_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("retrograd.gguf.open_gguf", press)
    assert run(["inspect", "m.gguf"]) == 130


def test_an_unexpected_exception_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RETRO_TRACEBACK", raising=False)
    try:
        raise ValueError("odd")
    except ValueError as error:
        report_fault(ValueError, error, error.__traceback__)
        told = capsys.readouterr().err
        assert "got ValueError at test_cli.py:" in told
        assert "please report" in told
        assert "Traceback" not in told
        monkeypatch.setenv("RETRO_TRACEBACK", "1")
        report_fault(ValueError, error, error.__traceback__)
    assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_exception_ends_the_process_with_1() -> None:
    program = "import sys, retrograd.cli.app as a\na.run = lambda arguments: 1 // 0\na.main()\n"
    environment = {k: v for k, v in os.environ.items() if k != "RETRO_TRACEBACK"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.returncode == command_line.EXIT_FAULT
    assert "got ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_fault(model: Path) -> None:
    inspect = f"{sys.executable} -m retrograd inspect {model}"
    done = subprocess.run(
        f"{inspect} | head -n 1", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(model))
    assert done.stderr == ""
