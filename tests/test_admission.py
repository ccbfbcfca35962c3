"""Admission: the rule, the table it reads, what this machine adds, and who may go around it."""

import ast
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.tiny import recipe, write
from lanes.synthetic import CELL, ROW, RUN, SITUATIONS, Made
from lanes.trial import device
from retrograd import LoraOptions, Trainer, admission
from retrograd.admission import Judge, Refused, admit, admit_all, collecting_evidence, judged_by
from retrograd.errors import AdmissionError
from retrograd.overlay import Local, Overlay, library_digest, path_of, read_overlay, write_overlay
from retrograd.table import Table, digest_of, packaged, parse
from tests.house import ROOT
from tests.made_table import made_table

pytestmark = pytest.mark.strict_admission


@pytest.fixture(autouse=True)
def _no_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def everything_holds() -> Table:
    return Made(SITUATIONS["row verified"], device(1, None)).table()


def test_without_a_table_nothing_runs() -> None:
    with judged_by(Table({}, {}, {}, {})), pytest.raises(AdmissionError) as caught:
        admit(ROW, device=device(1, None))
    assert caught.value.where == "admission"
    assert f"{ROW}: not measured on {device(1, None).env_class}" in str(caught.value.got)
    assert "retrograd verify --device cpu" in caught.value.remedy


def test_an_undeclared_row_is_refused_whoever_asks() -> None:
    rule = "a node runs on a declared kernel row"
    for context in (judged_by(everything_holds()), collecting_evidence()):
        with context, pytest.raises(AdmissionError, match=rule) as caught:
            admit("swiglu.forward.f64.cpu", device=device(1, None))
        assert ROW in caught.value.remedy


def test_a_refusal_of_many_rows_counts_them() -> None:
    rows = [ROW, "add.forward.f32.cpu", "fill.forward.f32.cpu", ROW]
    with judged_by(Table({}, {}, {}, {})), pytest.raises(AdmissionError, match="2 more are"):
        admit_all(rows, device=device(1, None))


def test_a_transferred_row_names_the_nearest_environment_in_one_line() -> None:
    made = Made(SITUATIONS["row verified elsewhere"], device(1, None))
    with judged_by(made.table()):
        answer = admit(ROW, device=device(1, None))
    here = Judge(device(1, None)).place.environment
    assert answer.state == "transferred"
    assert answer.note == f"verified in cpu-other-{device(1, None).toolchain}; this is {here}"
    lines = admission.summary({ROW: answer})
    assert lines == [
        "kernel rows: 1 admitted (1 transferred)",
        f"1 of them: {answer.note}",
    ]


def test_another_toolchain_is_transferred_and_not_stale() -> None:
    table = everything_holds()
    table = replace(table, toolchains=dict.fromkeys(table.toolchains, frozenset({"clang16"})))
    with judged_by(table):
        answer = admit(ROW, device=device(1, None))
    assert answer.state == "transferred"
    assert "verified in cpu-avx2-clang16" in answer.note or "portable" in answer.note


def test_the_table_and_the_device_refuse_in_different_words() -> None:
    told = {
        name: situation.words for name, situation in SITUATIONS.items() if situation.by == "cpu"
    }
    assert len(set(told.values())) == 3
    assert {s.by for s in SITUATIONS.values()} == {"", "admission", "cpu"}


# -- what a run meets


def test_a_run_is_refused_before_its_graph_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write(recipe(layers=1), tmp_path)

    def build(*_: object, **__: object) -> None:
        raise AssertionError("a graph was built")

    monkeypatch.setattr("retrograd.train.session.step_graph", build)
    made = Made(SITUATIONS["cell not measured"], device(1, None))
    with judged_by(made.table()), pytest.raises(AdmissionError, match=CELL):
        Trainer(model, lora=LoraOptions())


def test_a_node_is_refused_before_anything_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write(recipe(layers=1), tmp_path)
    on = replace(device(1, None))
    monkeypatch.setattr("retrograd.train.session.open_device", lambda *_, **__: on)
    before = on.stream.counters()["allocations"]
    made = Made(SITUATIONS["row failed"], on)
    for lora in (LoraOptions(), None):
        with judged_by(made.table()), pytest.raises(AdmissionError, match=f"{ROW}: failed"):
            Trainer(model, lora=lora)
    assert on.stream.counters()["allocations"] == before


def test_a_run_is_made_of_what_its_model_holds() -> None:
    assert RUN.cells() == (
        "training.lora-sft.cpu",
        "families.qwen2.cpu",
        "frozen-bases.f32.cpu",
        "optimizers.adamw.cpu",
        "base_dtype.adapter.f32.adamw.cpu",
    )


# -- collecting evidence is for lanes


def test_nothing_of_the_product_goes_around_admission() -> None:
    doors = {"collecting_evidence", "judged_by", "_collecting", "_judged_by"}
    found = {
        path.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if {getattr(node, key, None) for key in ("id", "attr", "name", "arg")} & doors
    }
    assert found == {"admission.py"}


def test_no_variable_of_the_environment_opens_admission() -> None:
    asked: set[str] = set()
    for name in ("admission", "standing", "table", "overlay"):
        text = (ROOT / "src" / "retrograd" / f"{name}.py").read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        reads = [
            n for n in nodes if isinstance(n, ast.Attribute) and n.attr in ("environ", "getenv")
        ]
        calls = [
            n
            for n in nodes
            if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("os.environ")
        ]
        assert len(reads) == len(calls)
        asked |= {ast.unparse(call.args[0]) for call in calls}
    assert asked == {"'XDG_DATA_HOME'"}


def test_collecting_ends_with_its_block_and_stays_in_its_thread() -> None:
    answers: list[object] = []

    def ask() -> None:
        answers.append(Judge(device(1, None)).row(ROW))

    with judged_by(Table({}, {}, {}, {})), collecting_evidence():
        assert not isinstance(Judge(device(1, None)).row(ROW), Refused)
        with judged_by(Table({}, {}, {}, {})):
            assert isinstance(Judge(device(1, None)).row(ROW), Refused)
        assert Judge(device(1, None)).row(ROW).state == "not measured"
    with judged_by(Table({}, {}, {}, {})):
        assert isinstance(Judge(device(1, None)).row(ROW), Refused)
    if packaged().rows:
        return  # another thread judges by the package's own table, which may admit the row
    with collecting_evidence():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert isinstance(answers[0], Refused)


# -- the table


def test_a_table_is_read_as_the_reduction_writes_it() -> None:
    text, rows, cells = made_table()
    table = parse(text.encode())
    assert set(rows) <= set(table.rows)
    assert set(table.cells) == cells
    states = {name: found.state for name, found in table.rows[rows[0]].findings.items()}
    assert states == {"cpu-avx2": "verified", "cpu-portable": "verified"}
    assert table.rows[rows[0]].kernel is not None
    assert table.toolchains["cpu-avx2"] == {"gcc12", "clang16"}
    assert table.backends["cpu-avx2"] == "cpu"
    assert table.digest == json.loads(text)["digest"]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda t: t.update(schema=2), "the schema of the table is 1"),
        (lambda t: t.update(digest="0" * 64), "the digest of the table is"),
        (lambda t: t["kernel_rows"].popitem(), "the digest of the table is"),
        (lambda t: (t.pop("environments"), t.update(digest=digest_of(t))), "form of its schema"),
        (lambda t: t.pop("schema"), "form of its schema"),
    ],
)
def test_a_table_that_was_changed_is_refused(change: object, rule: str) -> None:
    assert callable(change)
    table = json.loads(made_table()[0])
    change(table)
    with pytest.raises(AdmissionError, match=rule) as caught:
        parse(json.dumps(table).encode())
    assert caught.value.remedy


def test_text_that_is_no_table_is_refused() -> None:
    with pytest.raises(AdmissionError, match="form of its schema"):
        parse(b"{")


def test_a_state_nobody_knows_is_refused() -> None:
    table = json.loads(made_table()[0])
    row = next(iter(table["kernel_rows"].values()))
    next(iter(row["states"].values()))["state"] = "supported"
    table["digest"] = digest_of(table)
    with pytest.raises(AdmissionError, match="no state is called 'supported'"):
        parse(json.dumps(table).encode())


# -- what was measured on this machine


def overlay(*, library: str | None = None, **rows: Local) -> Overlay:
    on = device(1, None)
    named = {name.replace("__", "."): local for name, local in rows.items()}
    place = admission.place_of(on)
    return Overlay(place, library or library_digest(on.digests), "2026-01-01T00:00:00Z", named)


def test_an_overlay_is_read_as_it_was_written(tmp_path: Path) -> None:
    local = Local("failed", "1" * 64, "2" * 64, "case x: too far")
    written = overlay(swiglu__forward__f32__cpu=local)
    path = write_overlay(written)
    assert path.is_relative_to(tmp_path / "data" / "retrograd" / "overlay")
    assert read_overlay(written.place) == written
    assert read_overlay(replace(written.place, toolchain="clang16")) is None


@pytest.mark.parametrize("old", ['"failed"', '"2026', '"1111'])
def test_a_damaged_overlay_is_refused(old: str) -> None:
    written = overlay(swiglu__forward__f32__cpu=Local("failed", "1" * 64, None, "x"))
    path = write_overlay(written)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, '"verified"' if old == '"failed"' else old[:-1] + "9"))
    with pytest.raises(AdmissionError, match="overlay"):
        read_overlay(written.place)


def test_the_overlay_of_the_library_at_hand_admits() -> None:
    on = device(1, None)
    write_overlay(overlay(swiglu__forward__f32__cpu=Local("verified", "1" * 64, on.digests[ROW])))
    assert path_of(admission.place_of(on)).exists()
    if ROW in packaged().rows:
        return  # the package's table then has its own say, which the lane covers
    answer = admit(ROW, device=on)
    assert (answer.state, answer.note) == (
        "verified",
        "verified on this machine by `retrograd verify`",
    )


@pytest.mark.parametrize(("own", "state"), [(True, "verified"), (False, "not measured")])
def test_rows_without_a_kernel_hold_for_one_library_only(*, own: bool, state: str) -> None:
    made = Made(SITUATIONS["cell not measured"], device(1, None))
    library = None if own else "0" * 64
    local = overlay(library=library)
    local = replace(local, rows={f"probe.{CELL}": Local("verified", "1" * 64)})
    with judged_by(made.table(), local):
        answer = Judge(device(1, None)).cell(CELL)
    assert answer.state == state


def test_other_evidence_for_the_same_kernel_is_another_row() -> None:
    on = device(1, None)
    made = Made(SITUATIONS["row stale"], on)
    for digest, state in (("1" * 64, "verified"), ("3" * 64, "stale")):
        local = overlay(swiglu__forward__f32__cpu=Local("verified", digest, on.digests[ROW]))
        with judged_by(made.table(), local):
            assert Judge(on).row(ROW).state == state
