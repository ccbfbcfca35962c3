"""What a record amounts to, and what a good run leaves behind."""

from pathlib import Path
from typing import Any

import pytest

from lanes import receipt
from lanes.__main__ import main
from lanes.registry import Planned
from lanes.run import Request, select
from lanes.verdict import FALSIFIED, NOT_VERIFIED, VERIFIED, judge

SEEN: dict[str, Any] = {
    "elements": 10,
    "errors": {"max_ulp": 0.5},
    "bound": 1.0,
    "grade": "bounded",
    "seeds": [0],
    "counters": {"inputs": 2},
    "reason": "",
}
REFUSED = {
    **SEEN,
    "elements": 0,
    "errors": None,
    "bound": None,
    "counters": {},
    "reason": "no muon",
}
A, B = Planned("a", "x", inputs=2), Planned("b", "x", "no muon")


def ended(case: Planned | None, kind: str = "passed", *observed: dict[str, Any]) -> dict[str, Any]:
    return {
        "test": "lanes/suite/made.py::test",
        "lane": "made",
        "row": case.row if case else "",
        "case": case.case if case else "",
        "kind": kind,
        "reason": "" if kind == "passed" else f"{kind} it",
        "duration_s": 0.25,
        "observed": list(observed),
    }


GOOD = [ended(A, "passed", SEEN), ended(B, "passed", REFUSED), ended(None)]


def code_of(found: list[dict[str, Any]], *broken: str) -> int:
    return judge("made", (A, B), {"ended": found, "broken": list(broken)}).code


def test_everything_planned_and_as_predicted() -> None:
    verdict = judge("made", (A, B), {"ended": GOOD, "broken": []})
    assert (verdict.code, verdict.lines, verdict.duration_s) == (VERIFIED, (), 0.75)
    assert [(c["row"], c["status"], c["reason"]) for c in verdict.cases] == [
        ("a", "passed", None),
        ("b", "refused", "no muon"),
    ]
    assert verdict.cases[0]["counters"] == {"inputs": 2}


@pytest.mark.parametrize(
    ("first", "code", "line"),
    [
        (ended(A, "failed"), FALSIFIED, "a (x) failed: failed it"),
        (ended(A, "passed"), NOT_VERIFIED, "a (x): its test passed without observing anything"),
        (ended(A, "skipped"), NOT_VERIFIED, "a (x): planned and not observed"),
        (ended(A, "broken"), NOT_VERIFIED, "a (x): planned and not observed"),
        (ended(A, "passed", SEEN, SEEN), NOT_VERIFIED, "a (x): it was observed 2 times"),
        (
            ended(A, "passed", {**SEEN, "counters": {"inputs": 1}}),
            NOT_VERIFIED,
            "a (x): 2 inputs were planned, 1 compared",
        ),
        (
            ended(A, "passed", {**SEEN, "elements": 0}),
            NOT_VERIFIED,
            "a (x): nothing was compared: no elements",
        ),
        (
            ended(A, "passed", REFUSED),
            FALSIFIED,
            "a (x) failed: refused with a reason that was not predicted: no muon",
        ),
    ],
)
def test_a_case_that_ends_otherwise(first: dict[str, Any], code: int, line: str) -> None:
    verdict = judge("made", (A, B), {"ended": [first, *GOOD[1:]], "broken": []})
    assert verdict.code == code
    assert line in verdict.lines


def test_a_predicted_refusal_that_passes_is_falsified() -> None:
    seen = {**SEEN, "counters": {}}
    assert code_of([GOOD[0], ended(B, "passed", seen)]) == FALSIFIED
    assert code_of([GOOD[0], ended(B, "passed", {**REFUSED, "reason": "no"})]) == FALSIFIED


def test_what_is_missing_or_too_much_is_not_verified() -> None:
    assert code_of(GOOD[:1]) == NOT_VERIFIED
    assert code_of([*GOOD, GOOD[0]]) == NOT_VERIFIED
    assert code_of([*GOOD, ended(Planned("c", "x"), "passed", SEEN)]) == NOT_VERIFIED
    assert code_of(GOOD, "worker gw0 crashed") == NOT_VERIFIED
    assert code_of([]) == NOT_VERIFIED
    assert code_of([{**entry, "lane": "other"} for entry in GOOD]) == NOT_VERIFIED


def test_a_failure_outweighs_what_was_not_observed() -> None:
    assert code_of([ended(A, "failed", SEEN)], "a worker crashed") == FALSIFIED


def test_a_supporting_test_that_fails_falsifies_every_row() -> None:
    verdict = judge("made", (A, B), {"ended": [*GOOD[:2], ended(None, "failed")], "broken": []})
    assert verdict.code == FALSIFIED
    assert {c["status"] for c in verdict.cases} == {"failed"}
    assert code_of([*GOOD[:2], ended(None, "skipped")]) == NOT_VERIFIED


@pytest.mark.exhaustive
def test_a_good_run_leaves_a_receipt(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "rope_tables", "--out", str(tmp_path), "-n", "1"]) == 0
    said = capfd.readouterr().out
    for name in ("plan", "preflight", "tests", "rope_tables"):
        assert f"step={name} duration=" in said
    assert "rope_tables: verified: 4 of 4 cases, 4 of 4 rows" in said
    content = receipt.read(next(tmp_path.glob("*/rope_tables.json")))
    assert content["predicate"]["run"]["plan"] == "fast"
    assert content["predicate"]["executed"] == {"rows": 4, "cases": 4}


def test_selection_is_by_row_and_shard() -> None:
    rows = [select(Request("rope_tables", rows="*.l*", shard=(i, 2)))[0].cases for i in (1, 2)]
    assert [[case.row for case in cases] for cases in rows] == [
        ["rope_tables.linear"],
        ["rope_tables.llama3"],
    ]
    everything = select(Request("fast"))
    assert len(everything) == 7
    assert [entry.lane.name for entry in select(Request("fast", rows="formats.*"))] == ["formats"]
