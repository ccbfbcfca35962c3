"""The evidence table that the package carries, in the form admission reads.

``table.json`` is built from receipts by ``python -m matrix reduce``. It is read as it is: no state
is worked out here, and a table whose digest is not that of its content is refused as a whole.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, cast

from retrograd.errors import AdmissionError

SCHEMA = 1
NAME = "table.json"
VERIFIED = "verified"
TRANSFERRED = "transferred"
STALE = "stale"
FAILED = "failed"
REFUSED = "refused"
NOT_MEASURED = "not measured"
# Worst first: what needs several rows is in the first of their states here.
SEVERITY = (FAILED, STALE, NOT_MEASURED, REFUSED, TRANSFERRED, VERIFIED)

Json = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """What is known of a row in an environment class."""

    state: str
    cause: str = ""


@dataclass(frozen=True)
class TableRow:
    """A kernel row, or a row that only lanes run.

    Attributes:
        findings: by environment class.
        kernel: digest of what the kernel was compiled from when it was measured; None where there
            is no kernel.
        digest: digest of all that stands behind the row's evidence.
        is_kernel: whether a library carries it.
    """

    id: str
    findings: Mapping[str, Finding]
    kernel: str | None = None
    digest: str | None = None
    is_kernel: bool = True


@dataclass(frozen=True)
class Cell:
    """A capability on a backend.

    Attributes:
        needs: rows that have to hold; none where nothing is built.
        refuse: the declared reason for which it is refused.
        facts: columns of its own, such as the storage dtype.
    """

    id: str
    topic: str
    backend: str
    needs: tuple[str, ...] = ()
    refuse: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Table:
    """All of it.

    Attributes:
        toolchains: toolchains of the builds that were measured, by environment class.
        backends: backend of each environment class.
        digest: of the content; empty where the package carries no table.
    """

    rows: Mapping[str, TableRow]
    cells: Mapping[str, Cell]
    toolchains: Mapping[str, frozenset[str]]
    backends: Mapping[str, str]
    digest: str = ""


@cache
def packaged() -> Table:
    """The table of this package; one without rows where it carries none.

    Raises:
        AdmissionError: it is not what ``python -m matrix reduce`` wrote.
    """
    resource = files("retrograd").joinpath(NAME)
    return parse(resource.read_bytes()) if resource.is_file() else Table({}, {}, {}, {})


def parse(text: bytes) -> Table:
    """Reads a table.

    Raises:
        AdmissionError: it is no table of this schema, or its digest is not that of its content.
    """
    try:
        found = cast(Json, json.loads(text))
        if found["schema"] != SCHEMA:
            raise _refusal(f"the schema of the table is {SCHEMA}", repr(found["schema"]))
        content = digest_of(found)
        if found["digest"] != content:
            raise _refusal(f"the digest of the table is {content}", found["digest"])
        return _table(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refusal("the table has the form of its schema", repr(error)) from error


def digest_of(table: Json) -> str:
    """SHA-256, in hex, of the canonical JSON of a table without its digest."""
    rest = {key: value for key, value in table.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def worst(findings: Mapping[str, Finding]) -> Finding:
    """The finding of something that needs all of these rows, which has to be at least one."""
    row = min(findings, key=lambda name: SEVERITY.index(findings[name].state))
    found = findings[row]
    return Finding(found.state, f"{row}: {found.cause}" if found.cause else row)


def _table(found: Json) -> Table:
    rows = {
        row_id: _row(row_id, entry, is_kernel=is_kernel)
        for section, is_kernel in (("kernel_rows", True), ("lane_rows", False))
        for row_id, entry in found[section].items()
    }
    cells = {
        cell_id: _cell(cell_id, entry)
        for section in ("capabilities", "base_dtype")
        for cell_id, entry in found[section].items()
    }
    toolchains: dict[str, frozenset[str]] = {}
    backends: dict[str, str] = {}
    for entry in found["environments"].values():
        name = entry["class"]
        backends[name] = entry["backend"]
        measured = {entry["toolchain"]} if entry["lanes"] else set[str]()
        toolchains[name] = toolchains.get(name, frozenset()) | measured
    return Table(rows, cells, toolchains, backends, found["digest"])


def _row(row_id: str, entry: Json, *, is_kernel: bool) -> TableRow:
    findings = {
        name: Finding(_state(state["state"]), state["cause"])
        for name, state in entry["states"].items()
    }
    kernel = entry["parts"].get("kernel")
    return TableRow(row_id, findings, kernel, entry["digest"], is_kernel)


def _cell(cell_id: str, entry: Json) -> Cell:
    needs = tuple(sorted({row for rows in entry["needs"].values() for row in rows}))
    facts = dict(entry.get("facts", {}))
    return Cell(cell_id, entry["topic"], entry["backend"], needs, entry["refuse"], facts)


def _state(name: str) -> str:
    if name not in SEVERITY:
        raise ValueError(f"no state is called {name!r}")
    return name


def _refusal(rule: str, got: str) -> AdmissionError:
    return AdmissionError("table", rule, got, "reinstall retrograd, or build the table anew")
