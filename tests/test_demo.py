"""The demo on the generated model: the whole path with the public API alone."""

import ast
import json
import subprocess
from pathlib import Path

from retrograd.config.document import load_document
from tests.collecting import COMMAND, local_evidence
from tests.house import ROOT

DEMO = ROOT / "examples" / "demo.py"
PUBLIC = {"retrograd", "retrograd.config.document", "retrograd.errors", "retrograd.train"}


def test_the_demo_runs_and_leaves_its_figures(tmp_path: Path) -> None:
    command = [*COMMAND, str(DEMO), "--tiny", "--out", str(tmp_path), "--seed", "5"]
    environment = local_evidence(tmp_path / "data")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "dictation-tiny"
    report = json.loads((folder / "demo.json").read_text())
    assert report["exact_match_before"] == 0.0
    assert 0.0 <= report["exact_match_after"] <= 1.0
    assert report["tokens_per_s"] > 0
    assert report["peak_rss_bytes"] > 1e7
    assert Path(report["adapter"]) == folder / "adapter.gguf"
    assert Path(report["adapter"]).is_file()
    assert json.loads((folder / "run.json").read_text())["document"]["training"]["seed"] == 5
    assert "exact match before training: 0.0%" in done.stdout
    assert "before training" in done.stdout
    assert "retrograd generate" in done.stdout
    assert report["answered"] in done.stdout


def test_the_demo_imports_public_names_only() -> None:
    tree = ast.parse(DEMO.read_text(encoding="utf-8"))
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    assert {name for name in imported if name.startswith("retrograd")} <= PUBLIC
    assert "retrograd" in imported


def test_the_run_document_of_the_demo_is_valid(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.touch()
    path = ROOT / "examples" / "dictation" / "run.toml"
    document = load_document(path, overrides={"model.path": str(model)})
    assert document.output.folder.resolve() == ROOT / "runs" / "dictation"
    assert document.data.eval is not None
    assert document.data.eval != document.data.train
