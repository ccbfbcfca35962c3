"""What a user meets of admission: capabilities, preflight, train and verify."""

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fixtures.tiny import recipe, write
from lanes.synthetic import CELL, ROW, SITUATIONS, Made
from lanes.trial import device
from retrograd.admission import judged_by, place_of
from retrograd.backends import open_device
from retrograd.cli import verify as command
from retrograd.cli.app import run
from retrograd.errors import ConfigError, DeviceError
from retrograd.overlay import read_overlay
from retrograd.version import VERSION
from tests.house import ROOT
from tests.tiny_runs import write_run

pytestmark = pytest.mark.strict_admission


@pytest.fixture(autouse=True)
def _no_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def judged(name: str) -> AbstractContextManager[None]:
    return judged_by(Made(SITUATIONS[name], device(1, None)).table())


def test_capabilities_lists_what_the_build_registered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRO_THREADS", "1")
    monkeypatch.delenv("RETRO_CPU_ISA", raising=False)
    with judged("row of another kernel"):
        assert run(["capabilities", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    on = open_device(threads=1)
    assert set(found["rows"]) == set(on.layouts)
    assert found["rows"][ROW]["state"] == "stale"
    assert found["rows"][ROW]["admitted"] is False
    assert found["rows"][ROW]["digest_matches"] is False
    assert found["rows"]["add.forward.f32.cpu"] == {
        "state": "verified",
        "admitted": True,
        "digest_matches": True,
        "note": "made up",
    }
    assert found["device"]["threads"] == {"requested": 1, "effective": 1}
    assert found["device"]["isa"] == {"effective": on.probe()["isa"]}
    assert found["capabilities"][CELL] == "verified"


def test_capabilities_shows_what_was_asked_beside_what_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRO_CPU_ISA", "portable")
    with judged("row verified"):
        assert run(["capabilities"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cpu-portable-")
    assert "instruction set: portable (portable requested)" in lines
    assert any(line.split()[:2] == [ROW, "transferred"] for line in lines)


def test_preflight_counts_nodes_and_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = write_run(tmp_path)
    with judged("row verified"):
        assert run(["preflight", str(document)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # One layer, seven products with an adapter: two factors each, and the frozen product itself.
    assert ["matmul.forward", "21", "matmul.forward.f32.cpu", "verified"] in lines
    assert ["adamw.step", "14", "adamw.step.f32.cpu", "verified"] in lines
    assert [CELL, "verified"] in lines
    assert ["0", "refused"] in lines


@pytest.mark.parametrize(("name", "what"), [("row failed", ROW), ("cell stale", CELL)])
def test_preflight_lists_what_would_be_refused(
    name: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = write_run(tmp_path)
    with judged(name):
        assert run(["preflight", str(document)]) == 2
        text = capsys.readouterr().out
        assert run(["train", str(document)]) == 2
    assert "1 refused:" in text
    state = name.split()[1]
    assert f"got {what}: {state} on " in text
    told = capsys.readouterr().err
    assert told.startswith("[admission] ")
    assert f"got {what}: {state} on " in told
    assert not (tmp_path / "runs").exists()


def test_preflight_reads_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = write_run(tmp_path)

    def touch(*_: object) -> None:
        raise AssertionError("a weight was read")

    monkeypatch.setattr("retrograd.gguf.file.GgufFile.data", touch)
    monkeypatch.setattr("retrograd.gguf.file.GgufFile.dequantize", touch)
    with judged("row verified"):
        assert run(["preflight", str(document)]) == 0


def test_inspect_shows_states_and_refuses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(recipe(layers=1), tmp_path)
    with judged("row failed"):
        assert run(["inspect", str(model), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["kernel_rows"]
    assert rows[ROW] == "failed"
    assert rows["adamw.step.f32.cpu"] == "verified"


# -- verify

LANES = """
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
for name in ("run", "lane"):
    parser.add_argument(name)
for name in ("--plan", "--device", "--out", "--rows"):
    parser.add_argument(name)
parser.add_argument("--without-faults", action="store_true")
options = parser.parse_args()
from retrograd.backends import open_device
from retrograd.table import packaged
on = open_device(options.device)
listed = {{name: row.digest for name, row in packaged().rows.items()}}
rows = {rows!r} if options.lane == "ops" else ["formats.f32"]
parts = {{row: {{"kernel": on.digests.get(row, "0" * 64)}} for row in rows}}
parts.update({parts!r} if options.lane == "ops" else {{}})
cases = [
    {{"row": row, "case": "c", "status": "failed" if row in {failing!r} else "passed",
     "reason": "too far" if row in {failing!r} else None}}
    for row in rows
]
receipt = {{
    "subject": [
        {{"name": row, "digest": {{"sha256": listed.get(row) or "1" * 64}}}} for row in rows
    ],
    "predicate": {{
        "run": {{"started": "2026-01-01T00:00:00Z"}},
        "environment": {{"class": on.env_class, "toolchain": on.toolchain}},
        "digests": {{"rows": parts}},
        "cases": cases,
    }},
}}
folder = pathlib.Path(options.out, f"{{on.env_class}}-{{on.toolchain}}")
folder.mkdir(parents=True)
if {code} != 2:
    (folder / f"{{options.lane}}.json").write_text(json.dumps(receipt))
sys.exit({code})
"""


def evidence(
    folder: Path,
    *,
    rows: tuple[str, ...] = (ROW, "add.forward.f32.cpu"),
    failing: tuple[str, ...] = (),
    parts: dict[str, dict[str, str]] | None = None,
    code: int = 0,
    version: str = VERSION,
) -> Path:
    """A folder of lanes that say what a test wants them to."""
    source = folder / "src" / "retrograd" / "version.py"
    source.parent.mkdir(parents=True)
    source.write_text(f'VERSION = "{version}"\n', encoding="utf-8")
    main = folder / "lanes" / "__main__.py"
    main.parent.mkdir()
    text = LANES.format(rows=list(rows), failing=list(failing), parts=parts or {}, code=code)
    main.write_text(text, encoding="utf-8")
    return folder


def test_verify_keeps_what_holds_for_admission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evidence(tmp_path / "e", failing=(ROW,), code=1)
    monkeypatch.setattr(command, "find_evidence", lambda: folder)
    assert run(["verify"]) == 1
    text = capsys.readouterr().out
    assert f"{ROW:<44}  failed: case c: too far" in text
    assert f"{'add.forward.f32.cpu':<44}  verified" in text
    found = read_overlay(place_of(open_device()))
    assert found is not None
    assert {name: row.state for name, row in found.rows.items()} == {
        "add.forward.f32.cpu": "verified",
        "formats.f32": "verified",
        ROW: "failed",
    }
    assert found.rows[ROW].kernel == open_device().digests[ROW]
    assert found.rows["formats.f32"].kernel is None
    assert run(["capabilities", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[ROW]["state"] == "failed"
    assert rows["add.forward.f32.cpu"]["state"] == "verified"


def test_a_later_run_adds_to_an_earlier_one_of_the_same_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = evidence(tmp_path / "e")
    monkeypatch.setattr(command, "find_evidence", lambda: folder)
    assert run(["verify", "--lane", "ops"]) == 0
    assert run(["verify", "--lane", "formats"]) == 0
    found = read_overlay(place_of(open_device()))
    assert found is not None
    assert set(found.rows) == {ROW, "add.forward.f32.cpu", "formats.f32"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"code": 2}, "the lane formats comes to a verdict"),
        ({"parts": {ROW: {"kernel": "0" * 64}}}, "the lanes run the library that is verified"),
    ],
)
def test_verify_keeps_nothing_that_was_not_shown_here(
    changes: dict[str, object],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = evidence(tmp_path / "e", **changes)
    monkeypatch.setattr(command, "find_evidence", lambda: folder)
    assert run(["verify"]) == DeviceError.exit_code
    assert told in capsys.readouterr().err
    assert read_overlay(place_of(open_device())) is None


def test_verify_says_how_to_get_the_evidence_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither the product's own folder nor the present one is a checkout, and nothing is installed.
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c" / "verify.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"install retrograd-verify=={VERSION}"):
        command.find_evidence()
    evidence(tmp_path / "old", version="0.0.1")
    monkeypatch.chdir(tmp_path / "old")
    with pytest.raises(ConfigError, match="no retrograd-verify"):
        command.find_evidence()


def test_verify_finds_the_distribution_before_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = evidence(tmp_path / "site" / "retrograd_verify")
    here = evidence(tmp_path / "here")
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c" / "verify.py"))
    monkeypatch.chdir(here)
    assert command.find_evidence() == here
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    assert command.find_evidence() == installed


def test_the_second_distribution_carries_what_the_lanes_stand_on() -> None:
    import tomllib

    text = (ROOT / "packaging" / "verify" / "pyproject.toml").read_text(encoding="utf-8")
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    carried = wheel["force-include"]
    for source, target in carried.items():
        inside = source.removeprefix("../../")
        assert target == f"retrograd_verify/{inside}"
        assert inside == "source-stamp.json" or (ROOT / inside).exists()
    tops = {"lanes", "oracles", "fixtures", "native"}
    assert {f"../../{top}" for top in tops} <= set(carried)
