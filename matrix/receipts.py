"""Receipts as the table reads them: structure, self-digest, and agreement of the parts.

A receipt that breaks a rule is refused by name and never passed over. Whether it is *wanted* (a
declared row, a promised environment, a commit of this history) is asked in :mod:`matrix.reduce`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from matrix.canonical import Json, canonical, digest_of, read_json, row_digest
from matrix.errors import Complaint, RefusedError

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "tag:retrograd,2026:receipt/v1"
SCHEMA = 1
STATUSES = ("passed", "failed", "refused")
GRADES = ("lattice", "pinned", "bounded")
PLANS = ("fast", "full")
RERUN = "run the lane again and commit what it writes"

Check = Callable[[object], bool]
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True)
class Case:
    """What a lane observed of one row in one corpus.

    Attributes:
        worst: largest distance in steps of the dtype; None where nothing numeric was compared.
        bound: the bound it was judged by; None where equality was asked for.
        grade: ``lattice``, ``pinned`` or ``bounded``.
    """

    row: str
    case: str
    status: str
    reason: str | None
    elements: int
    worst: float | None
    bound: float | None
    grade: str


@dataclass(frozen=True)
class Receipt:
    """One run of one lane in one environment.

    Attributes:
        path: the file, relative to the folder of receipts.
        folder: ``<class>-<toolchain>``.
        planned: number of rows of the plan, and the hash over its rows and cases.
        digests: digest by row id, as it was run.
        parts: digests of what each row's digest is made of.
        cases: by row id.
    """

    path: str
    lane: str
    command: str
    plan: str
    planned: tuple[int, str]
    seed: int
    started: str
    version: str
    commit: str
    dirty: bool
    env_class: str
    toolchain: str
    backend: str
    device: str
    driver: str
    self_digest: str
    digests: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]]
    cases: Mapping[str, tuple[Case, ...]]

    @property
    def folder(self) -> str:
        return f"{self.env_class}-{self.toolchain}"

    @property
    def place(self) -> str:
        """The path that its environment and lane give it."""
        return f"{self.folder}/{self.lane}.json"


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _mapping(value: object) -> bool:
    return isinstance(value, dict)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*names: str) -> Check:
    return lambda value: value in names


def _hex(digits: int) -> Check:
    return lambda value: (
        isinstance(value, str) and len(value) == digits and _HEX.fullmatch(value) is not None
    )


# What has to be there, part by part. More may be: the self-digest covers it and nothing reads it.
_PARTS: Mapping[str, Mapping[str, Check]] = {
    "product": {"version": _text, "commit": _hex(40), "dirty": _truth},
    "run": {
        "lane": _text,
        "command": _text,
        "seed": _count,
        "started": _text,
        "plan": _one_of(*PLANS),
        # A part of a plan shows nothing of the rest: parts are merged first.
        "shard": lambda v: v == [1, 1],
        "rows": lambda v: v == "*",
    },
    "environment": {"class": _text, "toolchain": _text, "backend": _text, "device": _text},
    "plan": {"rows": _count, "cases": _count, "sha256": _hex(64)},
    "executed": {"rows": _count, "cases": _count},
    "digests": {"rows": _mapping, "comparator": _hex(64)},
}
_CASE: Mapping[str, Check] = {
    "row": _text,
    "case": _text,
    "status": _one_of(*STATUSES),
    "reason": _or_none(_text),
    "elements": _count,
    "errors": _or_none(_mapping),
    "bound": _or_none(_number),
    "grade": _one_of(*GRADES),
}
_ERRORS: Mapping[str, Check] = {"max_ulp": _or_none(_number), "bits_differing": _or_none(_count)}
_SHA = _hex(64)


def parse(path: str, text: bytes) -> Receipt:
    """Reads one receipt.

    Args:
        path: the file, relative to the folder of receipts.
        text: its bytes.

    Raises:
        RefusedError: it breaks a rule; each broken rule is named.
    """
    try:
        statement = read_json(text)
    except ValueError as error:
        raise RefusedError([Complaint(path, "a receipt is JSON", str(error), RERUN)]) from error
    # Canonical, so that a text has one meaning: a key that occurs twice would have two.
    if canonical(statement) != text.removesuffix(b"\n"):
        rule = "a receipt is canonical JSON: sorted keys, each once, without spaces"
        raise RefusedError([Complaint(path, rule, "another text of the same content", RERUN)])
    # Each stage may rely on what the one before has established.
    for stage in (_shape, _integrity, _agreement):
        complaints = [Complaint(path, rule, got, RERUN) for rule, got in stage(statement)]
        if complaints:
            raise RefusedError(complaints)
    receipt = _receipt(path, statement)
    complaints = list(_claims(receipt, statement["predicate"]["cases"]))
    if complaints:
        raise RefusedError(complaints)
    return receipt


def _shape(statement: object) -> Iterator[tuple[str, str]]:
    if not isinstance(statement, dict):
        yield "a receipt is a JSON object", type(statement).__name__
        return
    found = cast(Json, statement)
    for key, wanted in (("_type", STATEMENT), ("predicateType", PREDICATE)):
        if found.get(key) != wanted:
            yield f"{key} is {wanted}", repr(found.get(key))
    predicate = found.get("predicate")
    if not isinstance(predicate, dict):
        yield "a receipt has a predicate", type(predicate).__name__
        return
    body = cast(Json, predicate)
    if body.get("schema") != SCHEMA:
        yield f"the schema is {SCHEMA}, the only one this reader knows", repr(body.get("schema"))
        return
    for part, checks in _PARTS.items():
        yield from _keys(part, body.get(part), checks)
    if not _SHA(body.get("self_digest")):
        yield "self_digest is a sha256", repr(body.get("self_digest"))
    yield from _list("cases", body.get("cases"), _CASE)
    yield from _list("subject", found.get("subject"), {"name": _text, "digest": _mapping})


def _keys(where: str, value: object, checks: Mapping[str, Check]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield f"{where} is an object", type(value).__name__
        return
    entries = cast(Json, value)
    for key, check in checks.items():
        if key not in entries:
            yield f"{where} has the key {key}", "none"
        elif not check(entries[key]):
            yield f"{where}.{key} has the type and range of the schema", repr(entries[key])[:80]


def _list(where: str, value: object, checks: Mapping[str, Check]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, list) or not value:
        yield f"{where} is a list that is not empty", type(cast(object, value)).__name__
        return
    for number, entry in enumerate(cast(list[object], value)):
        yield from _keys(f"{where}[{number}]", entry, checks)


def _integrity(statement: Json) -> Iterator[tuple[str, str]]:
    predicate: Json = statement["predicate"]
    rest = {key: value for key, value in predicate.items() if key != "self_digest"}
    actual = digest_of({**statement, "predicate": rest})
    if actual != predicate["self_digest"]:
        yield f"self_digest is that of the content, {actual}", predicate["self_digest"]


def _agreement(statement: Json) -> Iterator[tuple[str, str]]:
    predicate: Json = statement["predicate"]
    names = [entry["name"] for entry in statement["subject"]]
    parts: Mapping[str, Any] = predicate["digests"]["rows"]
    keys = [(case["row"], case["case"]) for case in predicate["cases"]]
    if names != sorted(set(names)):
        yield "subjects are sorted and occur once", ", ".join(_disorder(names))
    if keys != sorted(set(keys)):
        yield "cases are sorted and occur once", ", ".join(map(str, _disorder(keys)))
    rows = {row for row, _ in keys}
    for what, found in (("digests.rows", set(parts)), ("cases", rows)):
        if found != set(names):
            odd = sorted(found ^ set(names))
            yield f"{what} and subject name the same rows", ", ".join(odd[:6])
    executed, plan = predicate["executed"], predicate["plan"]
    for key in ("rows", "cases"):
        if executed[key] != plan[key]:
            yield f"as many {key} were executed as planned, {plan[key]}", str(executed[key])
    for key, count in (("rows", len(rows)), ("cases", len(keys))):
        if executed[key] != count:
            yield f"executed.{key} counts the {key} that are listed, {count}", str(executed[key])
    # Number of inputs folded into a case: a shorter list of them is another plan.
    counters: list[Json] = [case.get("counters") or {} for case in predicate["cases"]]
    inputs = [found.get("inputs", 0) for found in counters]
    planned = digest_of([[*key, n] for key, n in zip(keys, inputs, strict=True)])
    if planned != plan["sha256"]:
        yield f"plan.sha256 is that of the rows and cases listed, {planned}", plan["sha256"]
    yield from _subjects(statement["subject"], parts, predicate["digests"]["comparator"])


def _disorder(keys: Sequence[Any]) -> list[Any]:
    return [b for a, b in pairwise(keys) if not a < b][:6]


def _subjects(
    subjects: Sequence[Json], parts: Mapping[str, Any], comparator: str
) -> Iterator[tuple[str, str]]:
    for entry in subjects:
        name, made_of = entry["name"], parts.get(entry["name"])
        if not isinstance(made_of, dict):
            continue
        pieces = _parts(cast(dict[str, object], made_of))
        if not pieces or not all(map(_SHA, pieces.values())):
            yield f"digests.rows of {name} are sha256 digests", repr(pieces)[:80]
            continue
        wanted = row_digest(name, cast(dict[str, str], pieces), comparator)
        if entry["digest"].get("sha256") != wanted:
            rule = f"the digest of {name} is that of its parts, {wanted}; it is foreign"
            yield rule, repr(entry["digest"].get("sha256"))


def _parts(found: Mapping[str, Any]) -> dict[str, Any]:
    """The digests that a row's digest is made of; a record may repeat that one as ``row``."""
    return {name: value for name, value in found.items() if name != "row"}


def _claims(receipt: Receipt, cases: Sequence[Json]) -> Iterator[Complaint]:
    for case in cases:
        for rule, got in _contradictions(case):
            name = f"{case['row']} ({case['case']})"
            yield Complaint(receipt.path, f"{name}: {rule}", got, RERUN)


def _contradictions(case: Json) -> Iterator[tuple[str, str]]:
    errors: Json = case["errors"] or {}
    if errors:
        yield from _keys("errors", errors, _ERRORS)
    worst, bound = errors.get("max_ulp"), case["bound"]
    if case["status"] != "passed":
        if case["reason"] is None:
            yield f"a case that {case['status']} says why", "no reason"
        return
    if not case["elements"]:
        yield "what passed compared at least one element", "none"
    if bound is None and case["grade"] == "bounded":
        yield "a bounded case states its bound", "none"
    if bound is not None and not _number(worst):
        yield "a case with a bound states its worst distance", repr(worst)
    elif bound is not None and _number(worst) and worst > bound:
        yield f"what passed lies within its bound, {bound}", f"max_ulp {worst}"
    if bound is None and errors.get("bits_differing"):
        yield "what passed without a bound is equal", f"{errors['bits_differing']} bits differ"


def _receipt(path: str, statement: Json) -> Receipt:
    predicate: Json = statement["predicate"]
    run, environment, product = predicate["run"], predicate["environment"], predicate["product"]
    cases: dict[str, list[Case]] = {}
    for case in predicate["cases"]:
        cases.setdefault(case["row"], []).append(_case(case))
    return Receipt(
        path=path,
        lane=run["lane"],
        command=run["command"],
        plan=run["plan"],
        planned=(predicate["plan"]["rows"], predicate["plan"]["sha256"]),
        seed=run["seed"],
        started=run["started"],
        version=product["version"],
        commit=product["commit"],
        dirty=product["dirty"],
        env_class=environment["class"],
        toolchain=environment["toolchain"],
        backend=environment["backend"],
        device=environment["device"],
        driver=str(environment.get("driver") or ""),
        self_digest=predicate["self_digest"],
        digests={entry["name"]: entry["digest"]["sha256"] for entry in statement["subject"]},
        parts={row: _parts(found) for row, found in predicate["digests"]["rows"].items()},
        cases={row: tuple(found) for row, found in cases.items()},
    )


def _case(case: Json) -> Case:
    errors: Json = case["errors"] or {}
    return Case(
        row=case["row"],
        case=case["case"],
        status=case["status"],
        reason=case["reason"],
        elements=case["elements"],
        worst=errors.get("max_ulp"),
        bound=case["bound"],
        grade=case["grade"],
    )
