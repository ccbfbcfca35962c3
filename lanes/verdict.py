"""What a lane's record amounts to: one of three exits, and the cases of its receipt.

0 verified: every planned case ended passed, or refused with the predicted reason. 1 falsified: at
least one ended otherwise. 2 not verified: something that was planned was not observed, whatever the
cause. A falsified case stays one even where others were not observed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lanes.registry import Planned

VERIFIED, FALSIFIED, NOT_VERIFIED = 0, 1, 2
WORDS = {VERIFIED: "verified", FALSIFIED: "falsified", NOT_VERIFIED: "not verified"}
_SHOWN = 10

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a lane ended.

    Attributes:
        code: exit code.
        cases: for the receipt, sorted by row and case; only those that ended.
        lines: why it is not verified; in words.
        duration_s: of its tests, added up.
    """

    code: int
    cases: tuple[dict[str, object], ...]
    lines: tuple[str, ...]
    duration_s: float


def judge(lane: str, planned: Sequence[Planned], record: Record) -> Verdict:
    """Holds the record of a lane against what was planned."""
    ended = [entry for entry in record["ended"] if entry["lane"] == lane]
    lines = [str(text) for text in record["broken"]]
    lines += [_line(entry) for entry in ended if entry["kind"] in {"broken", "skipped"}]
    fallen = [entry for entry in ended if entry["kind"] == "failed" and not entry["row"]]
    by_key: dict[tuple[str, str], list[Record]] = {}
    for entry in ended:
        if entry["row"]:
            by_key.setdefault((entry["row"], entry["case"]), []).append(entry)
    cases: list[dict[str, object]] = []
    for case in planned:
        found = by_key.pop(case.key, [])
        wrong, body = _case(case, found)
        lines += [f"{case.row} ({case.case}): {text}" for text in wrong]
        if body:
            cases.append(_with_lane_failure(body, fallen))
    lines += [f"{row} ({case}): observed without being planned" for row, case in by_key]
    failed = [case for case in cases if case["status"] == "failed"]
    lines += [f"{c['row']} ({c['case']}) failed: {c['reason']}" for c in failed[:_SHOWN]]
    code = FALSIFIED if failed or fallen else NOT_VERIFIED if lines or not cases else VERIFIED
    if not cases:
        lines.append("no planned case was observed")
    duration = sum(float(entry["duration_s"]) for entry in ended)
    return Verdict(code, tuple(cases), _short(lines), duration)


def _short(lines: Sequence[str]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(lines))
    if len(unique) > _SHOWN:
        return (*unique[:_SHOWN], f"and {len(unique) - _SHOWN} more")
    return tuple(unique)


def _line(entry: Record) -> str:
    what = "was skipped, and a skip verifies nothing" if entry["kind"] == "skipped" else "broke off"
    return f"{entry['test']} {what}: {entry['reason']}"


def _case(case: Planned, found: Sequence[Record]) -> tuple[list[str], dict[str, object]]:
    """What is wrong with a case's record, and its entry of the receipt; empty where it has none."""
    if not found:
        return ["planned and not run"], {}
    if len(found) > 1:
        return [f"it ended {len(found)} times"], {}
    entry = found[0]
    if entry["kind"] not in {"passed", "failed"}:
        return ["planned and not observed"], {}
    return _observed(case, entry, cast(list[Record], entry["observed"]))


def _observed(
    case: Planned, entry: Record, observed: Sequence[Record]
) -> tuple[list[str], dict[str, object]]:
    if len(observed) > 1:
        return [f"it was observed {len(observed)} times"], {}
    if entry["kind"] == "failed":
        reason = str(entry["reason"]) or "its test failed without a word"
        return [], _entry(case, "failed", reason, observed[0] if observed else None)
    if not observed:
        return ["its test passed without observing anything"], {}
    return _held(case, observed[0])


def _held(case: Planned, seen: Record) -> tuple[list[str], dict[str, object]]:
    """Of a test that passed: whether what it says is what was planned."""
    if seen["reason"]:
        if seen["reason"] == case.refuse:
            return [], _entry(case, "refused", str(seen["reason"]), seen)
        text = f"refused with a reason that was not predicted: {seen['reason']}"
        return [], _entry(case, "failed", text, seen)
    if case.refuse:
        text = f"it passed; predicted was the refusal: {case.refuse}"
        return [], _entry(case, "failed", text, seen)
    if not seen["elements"]:
        return ["nothing was compared: no elements"], {}
    inputs = seen["counters"].get("inputs", 0)
    if inputs != case.inputs:
        return [f"{case.inputs} inputs were planned, {inputs} compared"], {}
    return [], _entry(case, "passed", None, seen)


def _entry(
    case: Planned, status: str, reason: str | None, seen: Record | None
) -> dict[str, object]:
    nothing: Record = {
        "elements": 0,
        "errors": None,
        "bound": None,
        "grade": "pinned",
        "seeds": [],
        "counters": {},
    }
    body = seen if seen is not None else nothing
    return {
        "row": case.row,
        "case": case.case,
        "corpus": case.case.partition(" ")[0],
        "seeds": list(body["seeds"]),
        "status": status,
        "reason": reason,
        "elements": body["elements"],
        "errors": body["errors"],
        "bound": body["bound"],
        "grade": body["grade"],
        "counters": {**body["counters"], **({"inputs": case.inputs} if case.inputs else {})},
    }


def _with_lane_failure(case: dict[str, object], fallen: Sequence[Record]) -> dict[str, object]:
    """A failed test that belongs to no row falsifies all: nothing says which row it spares."""
    if not fallen or case["status"] == "failed":
        return case
    first = fallen[0]
    return {**case, "status": "failed", "reason": f"{first['test']}: {first['reason']}"}
