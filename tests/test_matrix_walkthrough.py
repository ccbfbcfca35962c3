"""The walk-through quotes files and shows what commands printed; nothing of it is typed."""

import json
from pathlib import Path

import pytest
from made_receipts import Made, copy_declarations, digests_here, receipt

from matrix.__main__ import main
from matrix.walkthrough import PAGE, transcripts

ROW = "adamw.step.f32.cpu"
MADE = Made(rows=(ROW,), corpora=("gaussian", "lattice"), worst=1.5)
PRINTED = {name: f"$ {name}\nprinted by {name}" for name in ("digests", "verify", "rerun")}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout's declarations with one made-up receipt, reduced and rendered."""
    copy_declarations(tmp_path)
    path = tmp_path / "digests.json"
    path.write_text(digests_here(), encoding="utf-8")
    return tmp_path


def _settle(checkout: Path, *made: Made) -> None:
    for one in made:
        place = checkout / "reports" / "receipts" / one.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(receipt(one))
    assert _run(checkout, "reduce", "--digests", str(checkout / "digests.json")) == 0
    assert _run(checkout, "render") == 0


def _run(checkout: Path, *arguments: str) -> int:
    return main(["--root", str(checkout), *arguments])


def _write(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page, with what lanes would print made up and what ssh-keygen prints as it is."""
    lines = iter(PRINTED.values())
    real = _shell_of_the_module()

    def shell(folder: Path, commands: list[str]) -> str:
        return real(folder, commands) if "ssh-keygen" in commands[0] else next(lines)

    monkeypatch.setattr("matrix.walkthrough._shell", shell)
    assert _run(checkout, "walkthrough") == 0
    return (checkout / PAGE).read_text(encoding="utf-8")


def _shell_of_the_module():  # noqa: ANN202 — the module's own signature
    from matrix.walkthrough import _shell

    return _shell


def test_a_cell_is_followed_to_its_numbers(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _settle(checkout, MADE)
    page = _write(checkout, monkeypatch)
    table = json.loads((checkout / "src/retrograd/table.json").read_bytes())
    content = json.loads((checkout / "reports/receipts" / MADE.path).read_bytes())
    assert f"[{MADE.path}](../reports/receipts/{MADE.path})" in page
    assert f"| self-digest | `{content['predicate']['self_digest']}` |" in page
    assert page.count(table["digest"]) >= 4
    assert f"`{ROW}` uses most of its bound" in page
    assert '"max_ulp":1.5' in page
    assert "| AdamW | ↻ stale" in page
    assert "It is not the receipt's, which makes the row stale:" in page
    kept = transcripts(checkout / PAGE)
    assert {name: kept[name] for name in PRINTED} == PRINTED
    assert 'Good "retrograd-release" signature for reviewer@example.org' in kept["signature"]
    # The digest with one digit changed is not the one that was signed.
    assert kept["signature"].splitlines()[-1] == "(exit 255)"
    assert str(checkout) not in page
    capsys.readouterr()
    assert _run(checkout, "walkthrough", "--check") == 0


def test_a_page_of_another_table_or_with_a_typed_number_is_stale(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _settle(checkout, MADE)
    page = _write(checkout, monkeypatch)
    (checkout / PAGE).write_text(page.replace('"max_ulp":1.5', '"max_ulp":0.5'), encoding="utf-8")
    assert _run(checkout, "walkthrough", "--check") == 1
    assert f"{PAGE}: stale; run python -m matrix walkthrough" in capsys.readouterr().out
    (checkout / PAGE).write_text(page, encoding="utf-8")
    assert _run(checkout, "walkthrough", "--check") == 0
    _settle(checkout, Made(rows=(ROW,), worst=1.75))
    assert _run(checkout, "walkthrough", "--check") == 1
    (checkout / PAGE).unlink()
    assert _run(checkout, "walkthrough", "--check") == 1


def test_a_cell_without_receipts_ends_the_trail(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _settle(checkout)
    page = _write(checkout, monkeypatch)
    assert "No receipt shows any of these rows, so the trail ends here." in page
    assert "## 2 The signature" in page
    assert "lanes verify" not in page


def test_an_unknown_cell_is_refused(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _settle(checkout)
    assert _run(checkout, "walkthrough", "--cell", "optimizers.lion.cpu") == 2
    assert "the cell is declared; got optimizers.lion.cpu" in capsys.readouterr().err
