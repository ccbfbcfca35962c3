"""Running lanes: the request is checked, pytest runs it, the record is judged, receipts follow.

pytest runs in a process of its own, so that one which dies is seen as what it is. Every way in
which a planned case is not observed ends in exit 2, with a line that says why.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lanes import plan, receipt
from lanes.digests import (
    RowDigests,
    Sources,
    comparator_digest,
    current_digests,
    differing,
    fixture_digests,
)
from lanes.environment import describe
from lanes.lane_rows import lane_row_digests
from lanes.registry import Lane, LaneError, Need, Planned, get_lane, lane_names
from lanes.stamp import Stamp, product_stamp
from lanes.verdict import FALSIFIED, NOT_VERIFIED, VERIFIED, WORDS, Verdict, judge
from retrograd.backends import library_path, open_device

if TYPE_CHECKING:
    from retrograd.backends import Device

ROOT = receipt.ROOT
ALL = "fast"
# Named for installations, where no conftest.py stands beside the lanes.
_PLUGINS = ("-p", "lanes.runner", "-p", "lanes.admitting")
# Without these no lane means anything, whatever else it needs.
PACKAGES = ("numpy", "gguf", "mpmath", "jaxtyping", "hypothesis", "jsonschema", "pytest")


@dataclass(frozen=True)
class Request:
    """What a command line asks for.

    Attributes:
        lane: a lane, or ``fast`` for all of them.
        rows: shell pattern of row ids; ``*`` for all.
        out: folder for the receipts; None: the one that :func:`lanes.receipt.home` names.
        workers: processes of xdist; 0 runs the tests in one.
        pytest: arguments passed on to pytest.
        cases: only these, by lane; for reruns.
        faults: whether cases are run that need the library with planted faults, which only test
            builds have.
    """

    lane: str
    plan: str = "fast"
    shard: tuple[int, int] = (1, 1)
    rows: str = "*"
    device: str = "cpu"
    out: Path | None = None
    workers: int = 0
    pytest: tuple[str, ...] = ()
    cases: frozenset[tuple[str, str]] | None = None
    faults: bool = True

    @property
    def is_whole(self) -> bool:
        everything = self.faults and self.cases is None
        return everything and self.shard == (1, 1) and self.rows == "*"

    @property
    def said_rows(self) -> str:
        """What a receipt says of the rows; ``*`` for the whole plan alone."""
        # Chosen one by one, as a rerun does, they are a part of the plan as well.
        rows = self.rows if self.cases is None else "chosen"
        return rows if self.faults else f"{rows}, no planted faults"

    @property
    def command(self) -> str:
        """The command line that asks for this."""
        words = ["python -m lanes run", self.lane, "--plan", self.plan]
        words += ["--shard", f"{self.shard[0]}/{self.shard[1]}"] if self.shard != (1, 1) else []
        words += ["--rows", f"'{self.rows}'"] if self.rows != "*" else []
        words += [] if self.faults else ["--without-faults"]
        words += ["--device", self.device] if self.device != "cpu" else []
        return " ".join([*words, *(["--", *self.pytest] if self.pytest else [])])


@dataclass(frozen=True)
class Surroundings:
    """Everything that a receipt says apart from what was observed."""

    stamp: Stamp
    environment: dict[str, object]
    rows: Mapping[str, RowDigests]
    comparator: str
    fixtures: Mapping[str, str]


@dataclass(frozen=True)
class Selected:
    """A lane with the cases of it that are to run, and the size of its whole plan."""

    lane: Lane
    cases: tuple[Planned, ...]
    size: plan.Size


@contextmanager
def step(name: str) -> Generator[None]:
    """Prints how long a part took, in a form that scripts can read."""
    start = time.monotonic()
    yield
    print(f"step={name} duration={time.monotonic() - start:.1f}s", flush=True)


def run(request: Request) -> int:
    """Runs what is asked for; 0 verified, 1 falsified, 2 not verified."""
    verdicts, _ = observe(request)
    codes = {verdict.code for verdict in verdicts.values()}
    return next((code for code in (FALSIFIED, NOT_VERIFIED) if code in codes), VERIFIED)


def observe(request: Request) -> tuple[dict[str, Verdict], dict[str, receipt.Json]]:
    """Verdicts and receipts by lane. A lane that observed nothing has no receipt.

    Raises:
        RetrogradError: what is asked for cannot be run at all.
    """
    with step("plan"):
        selected = select(request)
    with step("preflight"):
        surroundings = look_around(request, [entry.lane for entry in selected])
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with step("tests"):
        record = _start(request, selected)
    verdicts: dict[str, Verdict] = {}
    receipts: dict[str, receipt.Json] = {}
    for entry in selected:
        name = entry.lane.name
        verdict = judge(name, entry.cases, record)
        if verdict.cases:
            receipts[name] = _receipt(request, entry, verdict, surroundings, started)
            verdict = _sound(verdict, receipts[name])
        _report(name, verdict, entry)
        verdicts[name] = verdict
        if name in receipts:
            _write(receipts[name], request, verdict)
    return verdicts, receipts


def _sound(verdict: Verdict, content: receipt.Json) -> Verdict:
    """A verdict whose receipt contradicts itself is none."""
    if verdict.code == NOT_VERIFIED:
        return verdict
    complaints = tuple(f"the receipt breaks a rule: {c}" for c in receipt.broken_rules(content))
    if not complaints:
        return verdict
    return replace(verdict, code=NOT_VERIFIED, lines=(*verdict.lines, *complaints[:5]))


def select(request: Request) -> list[Selected]:
    """The lanes and cases that are asked for.

    Raises:
        LaneError: there is no such lane, plan, row or shard, or nothing is left to run.
    """
    names = lane_names() if request.lane == ALL else (request.lane,)
    found: list[Selected] = []
    for name in names:
        lane = get_lane(name)
        cases = plan.checked(lane, request.plan)
        size = plan.size_of_planned(cases)
        left_out = frozenset[tuple[str, str]]() if request.faults else _of_faults(lane, request)
        cases = tuple(
            case
            for case in cases
            if fnmatchcase(case.row, request.rows) and case.key not in left_out
        )
        if cases or request.lane != ALL:
            found.append(Selected(lane, cases, size))
    if not any(entry.cases for entry in found):
        rule = f"the filter is the pattern of a row that {request.lane} covers"
        raise LaneError("lanes", rule, request.rows, "see lanes/plans for the rows")
    return [_narrowed(entry, request) for entry in found]


def _of_faults(lane: Lane, request: Request) -> frozenset[tuple[str, str]]:
    """Cases of a lane that need the library with planted faults."""
    parts = [part for part in lane.parts if Need.FAULTS in part.needs]
    return frozenset(case.key for part in parts for case in part.rows(request.plan))


def _narrowed(entry: Selected, request: Request) -> Selected:
    cases = plan.share(entry.cases, request.shard) if request.shard != (1, 1) else entry.cases
    if request.cases is not None:
        cases = tuple(case for case in cases if case.key in request.cases)
    return Selected(entry.lane, cases, entry.size)


def look_around(request: Request, lanes: Iterable[Lane]) -> Surroundings:
    """Asks for everything that the lanes need, and probes what the receipt says.

    Raises:
        RetrogradError: something is missing, or the library is not that of these sources.
    """
    for name in [*PACKAGES, *(["xdist"] if request.workers else [])]:
        try:
            import_module(name)
        except ImportError as error:
            rule = "the packages of the test group are installed"
            raise LaneError("lanes", rule, repr(error), f"install {name}") from error
    device = open_device(request.device)
    needs = frozenset[Need]().union(*(lane.needs for lane in lanes))
    for need in sorted(needs if request.faults else needs - {Need.FAULTS}, key=str):
        _ask(need, request.device)
    sources = Sources(package=Path(library_path(request.device)).parent)
    rows = known_digests(sources, device)
    return Surroundings(
        product_stamp(),
        describe(device),
        rows,
        comparator_digest(sources),
        fixture_digests(sources),
    )


def known_digests(sources: Sources, device: "Device") -> dict[str, RowDigests]:
    """Digests of all rows as the library carries them.

    Raises:
        LaneError: the library was built from other sources than those here.
    """
    wrong = differing(device.digests, current_digests(sources))
    if wrong:
        rule = "the library was built from these sources"
        got = f"other digests of {len(wrong)} rows, first {wrong[0]}"
        raise LaneError("lanes", rule, got, "build and install it again")
    kernels = dict(device.digests)
    return {
        **current_digests(sources, kernels=kernels),
        **lane_row_digests(sources, kernels=kernels),
    }


def _ask(need: Need, device: str) -> None:
    match need:
        case Need.DEVICE:
            open_device(device)
        case Need.FAULTS:
            open_device(device, threads=1, faults=True)
        case Need.BOUNDS:
            from lanes import tolerances

            if not tolerances.read():
                rule = "the bounds of the rows are recorded"
                got = f"none in {tolerances.PATH.name}"
                raise LaneError("lanes", rule, got, "run `python -m lanes.measure`")
        case Need.COMPILER:
            if shutil.which("g++") is None:
                raise LaneError("lanes", "there is a C++ compiler", "no g++", "install g++")


def _start(request: Request, selected: Sequence[Selected]) -> Mapping[str, Any]:
    """Runs pytest; its record, or what is known when it left none."""
    with TemporaryDirectory(prefix="lanes-") as folder:
        selection, record = Path(folder, "selection.json"), Path(folder, "record.json")
        chosen = {
            entry.lane.name: None if request.is_whole else _keys(entry, request)
            for entry in selected
        }
        selection.write_text(json.dumps(chosen), encoding="utf-8")
        arguments = [sys.executable, "-m", "pytest", *_PLUGINS, "-q", "--no-header"]
        arguments += [f"--plan={request.plan}", f"--lane-selection={selection}"]
        arguments += [f"--lane-record={record}", "-p", "no:cacheprovider", "--tb=short"]
        if request.workers:
            arguments += ["-n", str(request.workers), "--max-worker-restart=0"]
        arguments += [*request.pytest, *(str(entry.lane.source) for entry in selected)]
        done = subprocess.run(arguments, cwd=ROOT, check=False)
        if not record.exists():
            line = f"pytest left no record and ended with status {done.returncode}"
            return {"ended": [], "broken": [line]}
        return json.loads(record.read_bytes())


def _keys(entry: Selected, request: Request) -> list[list[str]]:
    keys = [list(case.key) for case in entry.cases]
    # Tests that only support a lane run once, with the first shard.
    first = request.shard[0] == 1 and request.rows == "*" and request.cases is None
    first = first and request.faults
    return [*keys, ["", ""]] if first else keys


def _report(name: str, verdict: Verdict, entry: Selected) -> None:
    print(f"step={name} duration={verdict.duration_s:.1f}s")
    for line in verdict.lines:
        print(f"{name}: {line}", file=sys.stderr)
    rows = {str(case["row"]) for case in verdict.cases}
    of = entry.size
    amount = f"{len(verdict.cases)} of {of.cases} cases, {len(rows)} of {of.rows} rows"
    print(f"{name}: {WORDS[verdict.code]}: {amount}", flush=True)


def _receipt(
    request: Request,
    entry: Selected,
    verdict: Verdict,
    around: Surroundings,
    started: str,
) -> receipt.Json:
    ids = [str(case["row"]) for case in verdict.cases]
    digests, subject = receipt.digests_block(around.rows, around.comparator, around.fixtures, ids)
    from lanes.catalogue import PLANS

    run = {
        "lane": entry.lane.name,
        "command": request.command,
        "seed": PLANS[request.plan][0],
        "started": started,
        "duration_s": round(verdict.duration_s, 3),
        "plan": request.plan,
        "shard": list(request.shard),
        "rows": request.said_rows,
    }
    return receipt.statement(
        subject,
        {
            "schema": 1,
            "product": around.stamp.receipt(),
            "run": run,
            "environment": around.environment,
            "plan": entry.size.record(),
            "executed": {"rows": len(set(ids)), "cases": len(ids)},
            "digests": digests,
            "cases": list(verdict.cases),
        },
    )


def _write(content: receipt.Json, request: Request, verdict: Verdict) -> None:
    """Writes the receipt of a verdict; one that is not whole proves nothing and is not kept."""
    name = content["predicate"]["run"]["lane"]
    if verdict.code == NOT_VERIFIED or request.cases is not None:
        return
    if len(verdict.cases) < content["predicate"]["plan"]["cases"] and request.is_whole:
        print(f"{name}: no receipt, because planned cases were not observed", file=sys.stderr)
        return
    folder, why = receipt.home(content)
    target = (request.out or ROOT / folder) / receipt.place(content)
    receipt.write(content, target)
    shown = target.relative_to(ROOT) if target.is_relative_to(ROOT) else target
    print(f"{name}: receipt {shown} ({why})", flush=True)
