"""Topics and their cells: ``capabilities.toml`` and ``base_dtype.toml``, and the whole declaration.

A row of a topic has a table per backend that names, by lane, the rows that must hold; a backend
without one has nothing built. Kernel rows may be named by a shell pattern. ``expand`` repeats a
row once for each of its entries, whose values replace ``{name}`` in every string of the row.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from matrix.canonical import Json
from matrix.declared import (
    BACKENDS,
    REFUSAL_LANE,
    Cell,
    Declarations,
    Topic,
    TopicRow,
    read_bounds,
    read_environments,
    read_kernel_rows,
    read_plans,
    read_release,
    read_toml,
)
from matrix.errors import Complaint, RefusedError

CAPABILITIES = "capabilities"
BASE_DTYPE = "base_dtype"
KERNEL_LANE = "ops"
_PATTERN = re.compile(r"[*?\[]")
_VERSION = re.compile(r'^VERSION\s*=\s*"([^"]+)"', re.MULTILINE)
_STORED = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
_OPTIMIZERS = {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon", "gefen": "Gefen"}


@dataclass(frozen=True)
class _Known:
    """Row ids by lane: those that a plan lists, and kernel rows, which exist without a plan."""

    plans: Mapping[str, frozenset[str]]
    kernel_rows: frozenset[str]

    def resolve(self, where: str, lane: str, named: Sequence[str]) -> tuple[str, ...]:
        """Patterns replaced by what they stand for.

        Raises:
            RefusedError: a name stands for nothing.
        """
        covered = self.plans.get(lane, frozenset[str]())
        covered = covered | self.kernel_rows if lane == KERNEL_LANE else covered
        found: set[str] = set()
        for name in named:
            exact = not _PATTERN.search(name)
            hits = {row for row in covered if row == name or fnmatchcase(row, name)}
            if not hits and exact and not covered:
                hits = {name}  # no plan yet says what this lane covers
            if not hits:
                rule = f"what a cell needs is covered by lane {lane}"
                raise RefusedError([Complaint(where, rule, name, "name a row of the lane's plan")])
            found |= hits
        return tuple(sorted(found))


def read_declarations(root: Path) -> Declarations:
    """Every declaration of a checkout.

    Args:
        root: the top folder of the checkout.

    Raises:
        RefusedError: a declaration breaks a rule.
    """
    kernel_rows = read_kernel_rows(root / "src" / "retrograd" / "rows.toml")
    plans = read_plans(root / "lanes" / "plans")
    known = _Known({lane: plan.rows for lane, plan in plans.items()}, frozenset(kernel_rows))
    topics = _read_topics(root, known)
    cells = [cell for topic in topics for row in topic.rows for cell in row.cells.values()]
    coverage: dict[str, set[str]] = {lane: set(plan.rows) for lane, plan in plans.items()}
    coverage.setdefault(KERNEL_LANE, set()).update(kernel_rows)
    for cell in cells:
        for lane, rows in cell.needs.items():
            coverage.setdefault(lane, set()).update(rows)
    refusals = {row.id: row.refuse for row in kernel_rows.values() if row.refuse}
    refusals |= {row: cell.refuse for cell in cells if cell.refuse for row in cell.row_ids}
    version = _VERSION.search((root / "src" / "retrograd" / "version.py").read_text("utf-8"))
    return Declarations(
        version=version[1] if version else "unknown",
        kernel_rows=kernel_rows,
        plans=plans,
        coverage={lane: frozenset(rows) for lane, rows in coverage.items()},
        refusals=refusals,
        bounds=read_bounds(root / "lanes" / "tolerances.toml"),
        environments=read_environments(root / "matrix" / "environments.toml", root),
        topics=topics,
        release=read_release(root / "matrix" / "release.toml", root),
    )


def _read_topics(root: Path, known: _Known) -> tuple[Topic, ...]:
    path = root / "matrix" / "capabilities.toml"
    where = str(path.relative_to(root))
    base = tuple(_base_rows(root, known))
    topics: list[Topic] = []
    for entry in read_toml(path, root)["topic"]:
        if entry.get("rows_from") == BASE_DTYPE:
            topics.append(Topic(entry["id"], entry["title"], BASE_DTYPE, base))
            continue
        rows = tuple(
            _row(where, entry["id"], row, known)
            for declared in entry["row"]
            for row in _expanded(declared)
        )
        topics.append(Topic(entry["id"], entry["title"], CAPABILITIES, rows))
    ids = [row.cells["cpu"].id for topic in topics for row in topic.rows]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise RefusedError([Complaint(where, "a row occurs once", ", ".join(twice), "rename one")])
    return tuple(topics)


def _row(where: str, topic: str, entry: Json, known: _Known) -> TopicRow:
    place = f"{where}: {topic}.{entry['id']}"
    odd = sorted(set(entry) - {"id", "title", "facts", "notes", *BACKENDS})
    if odd:
        raise RefusedError(
            [Complaint(place, "a row has known keys", ", ".join(odd), "remove them")]
        )
    shared = tuple(entry.get("notes", ()))
    cells = {
        backend: _cell(place, f"{topic}.{entry['id']}.{backend}", entry.get(backend, {}), known)
        for backend in BACKENDS
    }
    cells = {
        backend: _with_notes(cell, shared if cell.needs or cell.refuse else ())
        for backend, cell in cells.items()
    }
    return TopicRow(entry["id"], entry["title"], entry.get("facts", {}), cells)


def _with_notes(cell: Cell, shared: tuple[str, ...]) -> Cell:
    return Cell(cell.id, cell.backend, cell.needs, cell.refuse, cell.manual, (*shared, *cell.notes))


def _cell(where: str, cell_id: str, entry: Json, known: _Known) -> Cell:
    odd = sorted(set(entry) - {"needs", "refuse", "manual", "notes"})
    if odd:
        raise RefusedError(
            [Complaint(where, "a cell has known keys", ", ".join(odd), "remove them")]
        )
    refuse: str | None = entry.get("refuse")
    needs = {
        lane: known.resolve(where, lane, named) for lane, named in entry.get("needs", {}).items()
    }
    if refuse and not needs:
        needs = {REFUSAL_LANE: (f"{REFUSAL_LANE}.{cell_id}",)}
    return Cell(
        id=cell_id,
        backend=cell_id.rpartition(".")[2],
        needs=needs,
        refuse=refuse,
        manual=entry.get("manual", False),
        notes=tuple(entry.get("notes", ())),
    )


def _expanded(entry: Json) -> Iterator[Json]:
    values: Sequence[Mapping[str, str]] = entry.get("expand", [{}])
    template = {key: value for key, value in entry.items() if key != "expand"}
    for names in values:
        yield cast(Json, _filled(template, names))


def _filled(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, dict):
        entries = cast(dict[str, object], value)
        return {key: _filled(entry, names) for key, entry in entries.items()}
    if isinstance(value, list):
        return [_filled(entry, names) for entry in cast(list[object], value)]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def _base_rows(root: Path, known: _Known) -> Iterator[TopicRow]:
    """Rows of ``base_dtype.toml``: the product of the lists of each entry."""
    path = root / "matrix" / "base_dtype.toml"
    where = str(path.relative_to(root))
    cells: dict[str, tuple[Mapping[str, str], dict[str, Json]]] = {}
    for entry in read_toml(path, root)["row"]:
        product = itertools.product(entry["storage"], entry["optimizer"], entry["master"])
        for storage, optimizer, master in product:
            facts = {
                "trains": entry["trains"],
                "storage": storage,
                "optimizer": optimizer,
                "master": "f32" if master else "none",
                "compute": entry["compute"],
            }
            suffix = ".master" if master else ""
            key = f"{entry['trains']}.{storage}.{optimizer}{suffix}"
            names = {"storage": storage, "optimizer": optimizer}
            declared = {k: entry[k] for k in ("needs", "refuse", "notes", "manual") if k in entry}
            for backend in entry["backend"]:
                row = cells.setdefault(key, (facts, {}))[1]
                if backend in row:
                    got = f"{key}.{backend}"
                    raise RefusedError([Complaint(where, "a row occurs once", got, "remove one")])
                filled = _filled(declared, {**names, "backend": backend})
                row[backend] = cast(Json, filled)
    for key, (facts, row) in cells.items():
        entry: Json = {"id": key, "title": _base_title(facts), "facts": facts, **row}
        yield _row(where, BASE_DTYPE, entry, known)


def _base_title(facts: Mapping[str, str]) -> str:
    what = "adapter" if facts["trains"] == "adapter" else "base weights"
    how = "with an F32 master copy" if facts["master"] == "f32" else "in place"
    stored, optimizer = _STORED[facts["storage"]], _OPTIMIZERS[facts["optimizer"]]
    return f"{stored} {what}, {optimizer}, {how}"
