"""The table as readers see it: glyphs, numbered footnotes, links; the same for every page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from matrix.canonical import Json
from matrix.declared import BACKENDS, Cell, Declarations, Topic
from matrix.errors import Complaint, RefusedError
from matrix.states import FAILED, NOT_MEASURED, REFUSED, SEVERITY, STALE, TRANSFERRED, VERIFIED

RECEIPTS = "reports/receipts"
UNKNOWN = "(not measured)"


@dataclass(frozen=True)
class Sign:
    """How a state is shown. No two states share a glyph or a verb."""

    glyph: str
    verb: str
    meaning: str


SIGNS: Mapping[str, Sign] = {
    VERIFIED: Sign("●", "verified", "its lanes passed in this environment class, at this digest"),
    TRANSFERRED: Sign(
        "◐", "transferred", "verified for the backend in another environment class or toolchain"
    ),
    STALE: Sign(
        "↻", "stale", "measured, and something that it depends on has changed since; refused"
    ),
    FAILED: Sign("✗", "failed", "its lane ran and found a difference beyond the bound; refused"),
    REFUSED: Sign("⊘", "refused", "declared as refused; a receipt shows the message"),
    NOT_MEASURED: Sign("○", "not measured", "nobody has run it; refused"),
}


@dataclass(frozen=True)
class Link:
    """A receipt: the lane that wrote it, and where it lies from the top folder."""

    lane: str
    path: str


@dataclass(frozen=True)
class ClassView:
    """A cell in one environment class."""

    name: str
    sign: Sign
    cause: str
    held_back_by: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class CellView:
    """A cell as it is printed.

    Attributes:
        notes: numbers of its footnotes.
        share: largest part of a bound that a row of the cell uses; None where no row has a bound.
        closest: that row, its worst distance and its bound, in words.
        run: where and when, for what is run by hand.
    """

    id: str
    title: str
    sign: Sign
    cause: str
    classes: tuple[ClassView, ...]
    notes: tuple[int, ...]
    share: float | None
    closest: str
    run: str
    needs: Mapping[str, tuple[str, ...]]

    @property
    def n_needs(self) -> int:
        """How many rows it rests on."""
        return len({row for rows in self.needs.values() for row in rows})

    @property
    def groups(self) -> Iterable[tuple[Sign, tuple[ClassView, ...]]]:
        """Classes that share a state: first those that decide the cell, then worst first."""
        own = self.sign.verb
        verbs = {c.sign.verb for c in self.classes}
        signs = sorted(verbs, key=lambda verb: (verb != own, SEVERITY.index(verb)))
        for verb in signs:
            yield SIGNS[verb], tuple(c for c in self.classes if c.sign.verb == verb)


@dataclass(frozen=True)
class RowView:
    """A line of a topic, its cells in the order of the backends."""

    title: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True)
class HeldBack:
    """Rows that keep a cell from the best state it could have."""

    cell: CellView
    classes: tuple[str, ...]
    verb: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class TopicView:
    """A topic and its footnotes by number."""

    id: str
    title: str
    rows: tuple[RowView, ...]
    notes: Mapping[int, str]

    @property
    def held_back(self) -> tuple[HeldBack, ...]:
        """What holds cells back, for the list below the table; classes that share it together."""
        found: dict[tuple[str, str, tuple[str, ...]], list[ClassView]] = {}
        cells = {cell.id: cell for row in self.rows for cell in row.cells}
        for cell in cells.values():
            for entry in cell.classes:
                if entry.held_back_by:
                    key = (cell.id, entry.sign.verb, entry.held_back_by)
                    found.setdefault(key, []).append(entry)
        return tuple(
            HeldBack(cells[name], tuple(c.name for c in classes), verb, rows)
            for (name, verb, rows), classes in found.items()
        )


@dataclass
class _Notes:
    """Footnotes of a topic; the same text has one number."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def number(self, text: str, start: int) -> int:
        return self.numbers.setdefault(text, start + len(self.numbers))


def topic_views(declared: Declarations, table: Json) -> tuple[TopicView, ...]:
    """Every topic; footnotes are numbered through the page.

    Raises:
        RefusedError: the table lacks a declared cell.
    """
    views: list[TopicView] = []
    for topic in declared.topics:
        start = 1 + sum(len(view.notes) for view in views)
        views.append(_topic(topic, table, start))
    return tuple(views)


def _topic(topic: Topic, table: Json, start: int) -> TopicView:
    notes = _Notes()
    rows: list[RowView] = []
    for row in topic.rows:
        cells = tuple(
            _cell(row.title, row.cells[backend], topic.kind, table, notes, start)
            for backend in BACKENDS
        )
        rows.append(RowView(row.title, cells))
    by_number = {number: text for text, number in notes.numbers.items()}
    return TopicView(topic.id, topic.title, tuple(rows), by_number)


def _cell(title: str, cell: Cell, kind: str, table: Json, notes: _Notes, start: int) -> CellView:
    entry: Json | None = table[kind].get(cell.id)
    if entry is None:
        rule = "the table holds every declared cell"
        remedy = "run `python -m matrix reduce`"
        raise RefusedError([Complaint("table.json", rule, f"none for {cell.id}", remedy)])
    classes = tuple(_class(name, found, table) for name, found in entry["classes"].items())
    closest = _closest(entry)
    receipts = [table["receipts"][link.path] for c in classes for link in c.links]
    fill = {
        "worst": f"{closest['worst']:.3g}" if closest else UNKNOWN,
        "bound": f"{closest['bound']:.3g}" if closest else UNKNOWN,
        "device": ", ".join(dict.fromkeys(r["device"] for r in receipts)) or UNKNOWN,
        "started": max((r["started"] for r in receipts), default=UNKNOWN),
    }
    return CellView(
        id=cell.id,
        title=title,
        sign=SIGNS[entry["state"]],
        cause=entry["cause"],
        classes=classes,
        notes=tuple(notes.number(_filled(text, fill), start) for text in cell.notes),
        share=closest["worst"] / closest["bound"] if closest else None,
        closest=f"{closest['row']}: {fill['worst']} of {fill['bound']} steps" if closest else "",
        run=f"by hand on {fill['device']}, {fill['started']}" if cell.manual else "",
        needs=cell.needs,
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _class(name: str, found: Json, table: Json) -> ClassView:
    links = tuple(Link(table["receipts"][path]["lane"], path) for path in found["receipts"])
    sign = SIGNS[found["state"]]
    return ClassView(name, sign, found["cause"], tuple(found["held_back_by"]), links)


def _closest(entry: Json) -> Json | None:
    """The row of the cell that uses most of its bound, over all classes."""
    found = [c["closest"] for c in entry["classes"].values() if c["closest"]]
    return max(found, key=lambda c: c["worst"] / c["bound"], default=None)


@dataclass(frozen=True)
class RowInClass:
    """A row in one environment class."""

    id: str
    env_class: str
    sign: Sign
    grade: str
    device: str
    worst: str
    bound: str
    receipt: str | None
    cause: str


def required_rows(declared: Declarations, table: Json) -> tuple[RowInClass, ...]:
    """Rows of the claimed backends in each class that promises them."""
    claimed = declared.release.claimed
    classes = {e.env_class for e in declared.environments if e.backend in claimed and e.lanes}
    return tuple(row for row in all_rows(table) if row.env_class in classes)


def all_rows(table: Json) -> tuple[RowInClass, ...]:
    """Every row of the table in each class."""
    return tuple(
        _required(row_id, name, state, table)
        for section in ("kernel_rows", "lane_rows")
        for row_id, entry in sorted(table[section].items())
        for name, state in entry["states"].items()
    )


def _required(row_id: str, name: str, state: Json, table: Json) -> RowInClass:
    receipt: str | None = state["receipt"]
    return RowInClass(
        id=row_id,
        env_class=name,
        sign=SIGNS[state["state"]],
        grade=state["grade"] or "none",
        device=table["receipts"][receipt]["device"] if receipt else "none",
        worst=_figure(state["worst"]),
        bound=_figure(state["bound"]),
        receipt=receipt,
        cause=state["cause"],
    )


def _figure(value: float | None) -> str:
    return f"{value:.4g}" if value is not None else "none"
