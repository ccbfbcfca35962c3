"""``python -m matrix`` on a checkout of its own: what it writes, prints and returns."""

import shutil
from pathlib import Path

import pytest
from made_receipts import Made, copy_declarations, digests_here, receipt

from matrix.__main__ import main

TABLE, SUPPORT = "src/retrograd/table.json", "SUPPORT.md"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout's declarations and templates, no receipts, and its digests in a file."""
    copy_declarations(tmp_path)
    (tmp_path / "digests.json").write_text(digests_here(), encoding="utf-8")
    return tmp_path


def _run(checkout: Path, *arguments: str) -> int:
    given = ("--digests", str(checkout / "digests.json")) if arguments[0] == "reduce" else ()
    return main(["--root", str(checkout), *arguments, *given])


def test_write_check_edit_check(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(checkout, "reduce", "--check") == 1
    assert not (checkout / TABLE).exists()
    assert _run(checkout, "render") == 2  # there is no table yet
    assert "there is a table; got no file" in capsys.readouterr().err
    assert _run(checkout, "reduce") == 0
    assert _run(checkout, "render") == 0
    assert _run(checkout, "reduce", "--check") == 0
    assert _run(checkout, "render", "--check") == 0
    (checkout / SUPPORT).write_text("# everything works\n", encoding="utf-8")
    assert _run(checkout, "render", "--check") == 1
    assert "SUPPORT.md: stale" in capsys.readouterr().out
    assert (checkout / SUPPORT).read_text(encoding="utf-8") == "# everything works\n"


def test_todo_lists_every_promised_lane_and_counts(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(checkout, "reduce") == 0
    capsys.readouterr()
    assert _run(checkout, "todo") == 0
    printed = capsys.readouterr().out
    assert "cpu-avx2-gcc12 ops: no receipt" in printed
    assert "  run: RETRO_CPU_ISA=avx2 nox -s lanes -- run ops --plan full" in printed
    assert "hold back a release for cpu" in printed.splitlines()[-1]
    assert _run(checkout, "todo", "--check") == 1


def test_a_bad_receipt_stops_everything_and_is_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = checkout / "reports" / "receipts" / Made().path
    place.parent.mkdir(parents=True)
    place.write_bytes(receipt(Made(rows=("gelu.forward.f32.cpu",))))
    assert _run(checkout, "reduce") == 2
    error = capsys.readouterr().err
    assert "[cpu-avx2-gcc12/ops.json]" in error
    assert "gelu.forward.f32.cpu" in error
    assert not (checkout / TABLE).exists()


def test_a_receipt_of_an_unclean_tree_is_told(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = checkout / "reports" / "receipts" / Made().path
    place.parent.mkdir(parents=True)
    place.write_bytes(receipt(Made(dirty=True)))
    assert _run(checkout, "reduce") == 0
    assert "cpu-avx2-gcc12/ops.json: local, from an unclean tree" in capsys.readouterr().out


def test_diff_prints_states_with_their_cause(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(checkout, "reduce") == 0
    shutil.copy(checkout / TABLE, checkout / "old.json")
    place = checkout / "reports" / "receipts" / Made().path
    place.parent.mkdir(parents=True)
    place.write_bytes(receipt(Made()))
    assert _run(checkout, "reduce") == 0
    capsys.readouterr()
    assert _run(checkout, "diff", str(checkout / "old.json"), str(checkout / TABLE)) == 0
    printed = capsys.readouterr().out
    # The made-up digests are not those of this checkout.
    assert "add.forward.f32.cpu [cpu-avx2]: not measured -> stale; run: changed since:" in printed
    assert "states differ" in printed.splitlines()[-1]


def test_unreadable_digests_are_refused(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "digests.json").write_text('{"add.forward.f32.cpu": "abc"}', encoding="utf-8")
    assert _run(checkout, "reduce") == 2
    assert "this checkout's digests can be read" in capsys.readouterr().err


def test_the_table_has_a_row_a_line(checkout: Path) -> None:
    assert _run(checkout, "reduce") == 0
    text = (checkout / TABLE).read_text(encoding="utf-8")
    assert "python -m matrix reduce" in text.splitlines()[0]
    lines = [line for line in text.splitlines() if line.startswith('"add.forward.f32.cpu":')]
    assert len(lines) == 1
