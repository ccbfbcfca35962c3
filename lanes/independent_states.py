"""The state of every declared row and cell, worked out again from receipts and declarations.

Written from the rules and not from the code that builds the table, with the standard library alone;
it reads neither the table nor anything of ``matrix`` or ``retrograd``. The lane ``admission``
compares what the product admits with what stands here.

Rules: in a class that promises lanes, a row is as good as the worst of what those lanes show of it,
and ``not measured`` where one shows nothing. In any other class of its backend it is
``transferred`` if some class verifies it. A receipt shows a row while its digest is today's and
the lane ran the cases of today's plan: else it is ``stale``. It is ``failed`` if a case failed, was
refused without a declaration, or went beyond today's bound. A cell is the worst of what it needs,
and ``not measured`` if it needs nothing.
"""

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

WORST_FIRST = ("failed", "stale", "not measured", "refused", "transferred", "verified")
BACKENDS = ("cpu", "cuda", "vulkan", "metal")
Json = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A declared cell.

    Attributes:
        needs: row ids or patterns over them, by lane.
        facts: what a base-dtype cell is about.
    """

    id: str
    backend: str
    needs: Mapping[str, tuple[str, ...]]
    refuse: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Shown:
    """What one receipt shows of one row."""

    folder: str
    lane: str
    state: str


class Ledger:
    """Everything declared and received in a checkout.

    Args:
        root: the checkout.
        digests: today's digest of each row.
        foreign: rows of which the library at hand was built from other sources than today's.
    """

    def __init__(
        self, root: Path, digests: Mapping[str, str], foreign: frozenset[str] = frozenset()
    ) -> None:
        self.digests = digests
        self.foreign = foreign
        self.kernel_rows = kernel_rows(root)
        self.claims = tuple(claims(root))
        self.environments: list[Json] = _toml(root / "matrix" / "environments.toml")["environment"]
        paths = sorted((root / "lanes" / "plans").glob("*.toml"))
        self.plans = {path.stem: _toml(path) for path in paths}
        self.lane_rows = {lane: set(map(str, plan["rows"])) for lane, plan in self.plans.items()}
        self.lane_rows.setdefault("ops", set()).update(self.kernel_rows)
        for claim in self.claims:
            for lane, names in claim.needs.items():
                plain = {name for name in names if not set(name) & set("*?[")}
                self.lane_rows.setdefault(lane, set()).update(plain)
        self.bounds = _bounds(root / "lanes" / "tolerances.toml")
        self.refusals = {
            f"admission.{claim.id}": claim.refuse for claim in self.claims if claim.refuse
        } | {row: str(e["refuse"]) for row, e in self.kernel_rows.items() if e.get("refuse")}
        self.shown: dict[str, list[Shown]] = {}
        for path in sorted((root / "reports" / "receipts").glob("*/*.json")):
            self._take(json.loads(path.read_text(encoding="utf-8")))

    def row(self, row_id: str, env_class: str, backend: str) -> str:
        """State of a row in a class of a backend, for the library at hand."""
        state = self._received(row_id, env_class, backend)
        admitted = state in ("verified", "transferred")
        return "stale" if admitted and row_id in self.foreign else state

    def _received(self, row_id: str, env_class: str, backend: str) -> str:
        home = self.kernel_rows.get(row_id, {}).get("backend", backend)
        local = [e for e in self.environments if e["backend"] == home == backend]
        own = self._promised(row_id, env_class, local)
        if own is not None:
            return own
        classes = dict.fromkeys(str(e["class"]) for e in local)
        found = [self._promised(row_id, name, local) for name in classes]
        if "verified" in found:
            return "transferred"
        return "refused" if "refused" in found else "not measured"

    def cell(self, claim: Claim, env_class: str) -> str:
        """State of a cell in a class of its backend."""
        if claim.refuse:
            return "refused"
        rows = self.needed(claim)
        states = [self.row(row, env_class, claim.backend) for row in rows]
        return min(states, key=WORST_FIRST.index, default="not measured")

    def needed(self, claim: Claim) -> set[str]:
        """Rows that a cell needs, patterns replaced by what they stand for."""
        return {
            row
            for lane, names in claim.needs.items()
            for name in names
            for row in {*self.lane_rows.get(lane, ()), name}
            if fnmatchcase(row, name) and not set(row) & set("*?[")
        }

    def _promised(self, row_id: str, env_class: str, local: list[Json]) -> str | None:
        """The worst of what promised lanes show of a row; None where no lane promises it."""
        states: list[str] = []
        for environment in local:
            if environment["class"] != env_class:
                continue
            folder = f"{environment['class']}-{environment['toolchain']}"
            for lane in environment["lanes"]:
                if row_id in self.lane_rows.get(lane, ()):
                    hits = [s.state for s in self.shown.get(row_id, ()) if _at(s, folder, lane)]
                    states.append(hits[0] if hits else "not measured")
        return min(states, key=WORST_FIRST.index) if states else None

    def _take(self, statement: Json) -> None:
        predicate: Json = statement["predicate"]
        if predicate["product"]["dirty"]:
            return
        environment: Json = predicate["environment"]
        folder = f"{environment['class']}-{environment['toolchain']}"
        digests = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
        by_row: dict[str, list[Json]] = {}
        for case in predicate["cases"]:
            by_row.setdefault(case["row"], []).append(case)
        for row_id, cases in by_row.items():
            state = self._judge(row_id, cases)
            changed = self.digests.get(row_id) != digests[row_id]
            if changed or (state != "failed" and self._ran_other_cases(predicate)):
                state = "stale"
            found = Shown(folder, str(predicate["run"]["lane"]), state)
            self.shown.setdefault(row_id, []).append(found)

    def _ran_other_cases(self, predicate: Json) -> bool:
        """Whether it ran the plan of today's number of rows, with other cases in it."""
        run, ran = predicate["run"], predicate["plan"]
        today = self.plans.get(run["lane"], {}).get(run["plan"])
        if today is None or today["rows"] != ran["rows"]:
            return False
        return today["sha256"] != ran["sha256"]

    def _judge(self, row_id: str, cases: list[Json]) -> str:
        refuse = self.refusals.get(row_id)
        states = [self._case(row_id, case, refuse) for case in cases]
        return min(states, key=WORST_FIRST.index)

    def _case(self, row_id: str, case: Json, refuse: str | None) -> str:
        if refuse is not None:
            return "refused" if _says(case, refuse) else "failed"
        if case["status"] != "passed":
            return "failed"
        if case["bound"] is None or case["errors"] is None or case["errors"]["max_ulp"] is None:
            return "verified"
        bound = self.bounds.get(row_id)
        if bound is None:
            return "stale" if row_id in self.kernel_rows else "verified"
        return "failed" if case["errors"]["max_ulp"] > bound else "verified"


def kernel_rows(root: Path) -> dict[str, Json]:
    """Entries of ``rows.toml`` by row id."""
    entries: list[Json] = _toml(root / "src" / "retrograd" / "rows.toml")["row"]
    return {
        ".".join((entry["op"], entry["direction"], dtype, entry["backend"])): entry
        for entry in entries
        for dtype in entry["dtype"]
    }


def claims(root: Path) -> Iterator[Claim]:
    """Every declared cell of ``matrix/*.toml``."""
    for topic in _toml(root / "matrix" / "capabilities.toml")["topic"]:
        for row in topic.get("row", ()):
            for names in row.get("expand", ({},)):
                entry = cast(Json, _filled(row, names))
                for backend in BACKENDS:
                    cell_id = f"{topic['id']}.{entry['id']}.{backend}"
                    yield _claim(cell_id, backend, entry.get(backend, {}), {})
    yield from _base(root)


def _base(root: Path) -> Iterator[Claim]:
    built: dict[str, Claim] = {}
    lines: dict[str, Mapping[str, str]] = {}
    for entry in _toml(root / "matrix" / "base_dtype.toml")["row"]:
        lists = (entry["storage"], entry["optimizer"], entry["master"], entry["backend"])
        for storage, optimizer, master, backend in itertools.product(*lists):
            facts = {"trains": str(entry["trains"]), "storage": storage, "optimizer": optimizer}
            suffix = ".master" if master else ""
            line = f"base_dtype.{entry['trains']}.{storage}.{optimizer}{suffix}"
            names = {"storage": storage, "optimizer": optimizer, "backend": backend}
            filled = cast(Json, _filled({k: entry.get(k, {}) for k in ("needs",)}, names))
            filled["refuse"] = entry.get("refuse", "")
            lines[line] = facts
            built[f"{line}.{backend}"] = _claim(f"{line}.{backend}", backend, filled, facts)
    for line, facts in lines.items():
        for backend in BACKENDS:
            cell_id = f"{line}.{backend}"
            yield built.get(cell_id) or _claim(cell_id, backend, {}, facts)


def _claim(cell_id: str, backend: str, entry: Json, facts: Mapping[str, str]) -> Claim:
    needs = {lane: tuple(names) for lane, names in entry.get("needs", {}).items()}
    return Claim(cell_id, backend, needs, entry.get("refuse", ""), facts)


def _says(case: Json, reason: str) -> bool:
    return case["status"] == "refused" and case["reason"] == reason


def _at(shown: Shown, folder: str, lane: str) -> bool:
    return (shown.folder, shown.lane) == (folder, lane)


def _bounds(path: Path) -> dict[str, float]:
    sections = _toml(path) if path.exists() else {}
    return {
        name: float(entry["bound"])
        for section in cast(dict[str, dict[str, Json]], sections).values()
        for name, entry in section.items()
    }


def _filled(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, dict):
        return {key: _filled(entry, names) for key, entry in cast(Json, value).items()}
    if isinstance(value, list):
        return [_filled(entry, names) for entry in cast(list[object], value)]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def _toml(path: Path) -> Json:
    return tomllib.loads(path.read_text(encoding="utf-8"))
