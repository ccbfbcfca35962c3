"""Declarations: what rows, cells and environments there are. They carry no state and no number.

Kernel rows come from ``src/retrograd/rows.toml``, what a lane covers from ``lanes/plans/``, bounds
from ``lanes/tolerances.toml``, everything else from ``matrix/*.toml``.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from matrix.canonical import Json
from matrix.errors import Complaint, RefusedError

BACKENDS = ("cpu", "cuda", "vulkan", "metal")
BACKEND_NAMES = {"cpu": "CPU", "cuda": "CUDA", "vulkan": "Vulkan", "metal": "Metal"}
# Every cell is tried by starting the product; a refused one has no other evidence.
REFUSAL_LANE = "admission"

# What a receipt says. In a declaration it would be a claim that nobody measured.
_OBSERVED_KEYS = frozenset(
    {"state", "status", "worst", "p999", "bound", "measured", "errors", "max_ulp", "digest"}
    | {"elements", "samples", "seeds", "receipt", "receipts", "tolerance", "verified", "passed"}
)
_FIGURE = re.compile(r"\d[.,]\d|\d[eE][-+]?\d|\d\s*%|\d\s*(ms|us|s|x|MiB|GiB|MB|GB|tokens)\b")


@dataclass(frozen=True)
class KernelRow:
    """A row of ``rows.toml``; ``refuse`` is why a row that once ran is refused."""

    id: str
    backend: str
    contract: str
    refuse: str | None = None


@dataclass(frozen=True)
class Environment:
    """Where evidence is promised: each lane listed has a receipt, or its rows are not measured.

    Attributes:
        lanes: lanes promised here; none where a class is named only because users have it.
        plan: the plan that a release asks for, ``fast`` or ``full``.
        hardware: what has to be found or borrowed to run it.
        command: how to run one lane there; ``{lane}`` and ``{plan}`` are filled in.
        manual: whether it is run by hand, on hardware that no automatic lane has.
        device: shell pattern of the reference device's name, for what is run by hand.
    """

    env_class: str
    toolchain: str
    backend: str
    lanes: tuple[str, ...]
    plan: str
    hardware: str
    command: str
    manual: bool
    device: str = ""

    @property
    def folder(self) -> str:
        return f"{self.env_class}-{self.toolchain}"


@dataclass(frozen=True)
class Plan:
    """A committed plan: its rows, and by name (``fast``, ``full``) their number and a hash."""

    rows: frozenset[str]
    sizes: Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class Cell:
    """One capability on one backend.

    Attributes:
        id: ``<topic>.<row>.<backend>``.
        needs: row ids that must hold, by the lane that observes them; empty: nothing is built.
        refuse: why it is refused, where that is the declared answer.
        manual: whether its evidence is gathered by hand.
        notes: footnotes; ``{worst}``, ``{bound}``, ``{device}`` and ``{started}`` are filled in
            from receipts.
    """

    id: str
    backend: str
    needs: Mapping[str, tuple[str, ...]]
    refuse: str | None
    manual: bool
    notes: tuple[str, ...]

    @property
    def row_ids(self) -> tuple[str, ...]:
        return tuple(sorted({row for rows in self.needs.values() for row in rows}))


@dataclass(frozen=True)
class TopicRow:
    """A line of a topic, its cells by backend; ``facts`` are columns of its own, such as dtypes."""

    id: str
    title: str
    facts: Mapping[str, str]
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Topic:
    """A table of SUPPORT.md. ``kind`` is its section of the table file."""

    id: str
    title: str
    kind: str
    rows: tuple[TopicRow, ...]


@dataclass(frozen=True)
class Release:
    """What a release claims and asks for.

    Attributes:
        claimed: backends that a release must not have unverified rows for.
        criteria: the criteria in words.
        architectures: what the build pins, by backend.
    """

    claimed: tuple[str, ...]
    criteria: tuple[str, ...]
    architectures: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Declarations:
    """Everything that is declared.

    Attributes:
        version: of the product.
        kernel_rows: by id.
        plans: the committed plan, by lane.
        coverage: row ids that a lane observes, by lane.
        refusals: the declared reason, by row id.
        bounds: the recorded bound, by row id.
    """

    version: str
    kernel_rows: Mapping[str, KernelRow]
    plans: Mapping[str, Plan]
    coverage: Mapping[str, frozenset[str]]
    refusals: Mapping[str, str]
    bounds: Mapping[str, float]
    environments: tuple[Environment, ...]
    topics: tuple[Topic, ...]
    release: Release

    @property
    def cells(self) -> Iterator[tuple[Topic, Cell]]:
        """Every cell with its topic, in the order of the declarations."""
        for topic in self.topics:
            for row in topic.rows:
                for cell in row.cells.values():
                    yield topic, cell

    def backend_of(self, row_id: str) -> str | None:
        """The backend of a kernel row; None for rows that any backend may show."""
        row = self.kernel_rows.get(row_id)
        return row.backend if row else None


def read_toml(path: Path, root: Path) -> Json:
    """Reads a declaration.

    Raises:
        RefusedError: it holds a state, a number, or a figure in a footnote.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    where = str(path.relative_to(root))
    complaints = [
        Complaint(where, "a declaration carries no state and no measured number", got, "remove it")
        for got in _observed(document, "")
    ]
    if complaints:
        raise RefusedError(complaints)
    return document


def _observed(value: object, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, entry in cast(dict[str, object], value).items():
            if key in _OBSERVED_KEYS:
                yield f"{at}{key}"
            yield from _observed(entry, f"{at}{key}.")
    elif isinstance(value, list):
        for entry in cast(list[object], value):
            yield from _observed(entry, at)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield f"{at.rstrip('.')} = {value}"
    elif isinstance(value, str) and at.endswith("notes.") and _FIGURE.search(value):
        yield f"{at.rstrip('.')} = {value!r}"


def read_kernel_rows(path: Path) -> dict[str, KernelRow]:
    """The rows of ``rows.toml``, by id."""
    document: Json = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = [
        KernelRow(
            f"{entry['op']}.{entry['direction']}.{dtype}.{entry['backend']}",
            entry["backend"],
            entry["contract"],
            entry.get("refuse"),
        )
        for entry in document["row"]
        for dtype in entry["dtype"]
    ]
    return {row.id: row for row in rows}


def read_plans(folder: Path) -> dict[str, Plan]:
    """The committed plan of each lane."""
    plans: dict[str, Plan] = {}
    for path in sorted(folder.glob("*.toml")):
        document: Json = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = {name: cast(Json, v) for name, v in document.items() if isinstance(v, dict)}
        sizes = {name: (size["rows"], size["sha256"]) for name, size in tables.items()}
        plans[path.stem] = Plan(frozenset(document["rows"]), sizes)
    return plans


def read_bounds(path: Path) -> dict[str, float]:
    """Recorded bounds, by row id or subject."""
    if not path.exists():
        return {}
    document: Mapping[str, Mapping[str, Json]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: entry["bound"] for section in document.values() for name, entry in section.items()
    }


def read_environments(path: Path, root: Path) -> tuple[Environment, ...]:
    """The environments in which evidence is promised.

    Raises:
        RefusedError: one is listed twice or misses a key.
    """
    found: dict[str, Environment] = {}
    where = str(path.relative_to(root))
    for entry in read_toml(path, root)["environment"]:
        environment = Environment(
            env_class=entry["class"],
            toolchain=entry["toolchain"],
            backend=entry["backend"],
            lanes=tuple(entry["lanes"]),
            plan=entry["plan"],
            hardware=entry["hardware"],
            command=entry["command"],
            manual=entry.get("manual", False),
            device=entry.get("device", ""),
        )
        if environment.manual and not environment.device:
            rule = "what is run by hand names its reference device"
            raise RefusedError(
                [Complaint(where, rule, f"no device of {environment.folder}", "name it")]
            )
        if environment.folder in found or environment.backend not in BACKENDS:
            rule = f"an environment is listed once and its backend is one of {', '.join(BACKENDS)}"
            got = f"{environment.folder} of {environment.backend}"
            raise RefusedError([Complaint(where, rule, got, "correct it")])
        found[environment.folder] = environment
    return tuple(found.values())


def read_release(path: Path, root: Path) -> Release:
    """What a release claims."""
    document = read_toml(path, root)
    architectures: Mapping[str, Any] = document["architectures"]
    return Release(
        tuple(document["claimed"]),
        tuple(document["criteria"]),
        {backend: tuple(names) for backend, names in architectures.items()},
    )
