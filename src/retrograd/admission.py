"""Admission: the one place that says whether a kernel row or a capability may be used.

Two are asked, and either refuses. The table that the package carries: a row has to be ``verified``
in the device's environment class, or ``transferred``, that is verified in another class or by
another toolchain. And the live device: it has to hold the row, with the argument struct that the op
implies, in a library without planted faults. A row whose library digest is not the one that was
measured is ``stale`` at once. What ``retrograd verify`` found on this machine counts as well.

Lanes alone run rows that are not admitted, inside :func:`collecting_evidence`.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from retrograd.backends import Device, Layout
from retrograd.errors import AdmissionError
from retrograd.ops import OPS
from retrograd.overlay import Overlay, Place, machine_name, read_overlay
from retrograd.rows import Row, declared_rows
from retrograd.standing import ADMITTED, Standing
from retrograd.table import NOT_MEASURED, STALE, Cell, Finding, Table, packaged

_POINTER, _INT64 = 0, 1  # kinds of fields, as in native/include/retrograd/abi.h
_SHOWN = 4
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Admitted:
    """A row that may run.

    Attributes:
        state: what the table, or this machine's overlay, says of it.
        note: what a user should know of the state, in one line; empty where it is verified here.
    """

    row: Row
    state: str
    note: str = ""

    @property
    def id(self) -> str:
        return self.row.id


@dataclass(frozen=True)
class AdmittedCell:
    """A capability that may be used."""

    cell: Cell
    state: str
    note: str = ""

    @property
    def id(self) -> str:
        return self.cell.id


@dataclass(frozen=True)
class Refused:
    """A row or a capability that may not be used, and why.

    Attributes:
        by: ``admission`` for the table, the device's name for the device.
        state: what is known of it.
    """

    id: str
    state: str
    by: str
    rule: str
    got: str
    remedy: str

    def error(self) -> AdmissionError:
        return AdmissionError(self.by, self.rule, self.got, self.remedy)


@dataclass(frozen=True)
class Combination:
    """What a run is made of, as far as the table lists it.

    Attributes:
        algorithm: row of the topic of training algorithms, such as ``lora-sft``.
        family: architecture of the model.
        formats: storage formats of the base's matrices.
        optimizer, storage, compute: of the trained numbers.
    """

    algorithm: str
    family: str
    formats: tuple[str, ...]
    optimizer: str
    backend: str
    trains: str = "adapter"
    storage: str = "f32"
    compute: str = "f32"

    def cells(self) -> tuple[str, ...]:
        """Ids of every cell that has to be admitted."""
        return (
            f"training.{self.algorithm}.{self.backend}",
            f"families.{self.family}.{self.backend}",
            *(f"frozen-bases.{name}.{self.backend}" for name in self.formats),
            f"optimizers.{self.optimizer}.{self.backend}",
            f"base_dtype.{self.trains}.{self.storage}.{self.optimizer}.{self.backend}",
        )


@dataclass(frozen=True)
class Evidence:
    """What admission judges by: the table, and what was found on this machine."""

    table: Table
    overlay: Overlay | None


_collecting: ContextVar[bool] = ContextVar("collecting", default=False)
_judged_by: ContextVar[Evidence | None] = ContextVar("judged_by", default=None)


@contextmanager
def collecting_evidence() -> Generator[None]:
    """Runs rows whatever the table says of them. For lanes: nothing of the product calls it."""
    token = _collecting.set(True)
    try:
        yield
    finally:
        _collecting.reset(token)


@contextmanager
def judged_by(table: Table, overlay: Overlay | None = None) -> Generator[None]:
    """Judges by another table, strictly. For lanes, which meet every state this way."""
    tokens = _judged_by.set(Evidence(table, overlay)), _collecting.set(False)
    try:
        yield
    finally:
        _judged_by.reset(tokens[0])
        _collecting.reset(tokens[1])


def place_of(device: Device) -> Place:
    """Where a device's kernels run, as overlays name it."""
    return Place(device.name, device.env_class, device.toolchain, machine_name())


def admit(row_id: str, *, device: Device) -> Admitted:
    """Admits a kernel row.

    Raises:
        AdmissionError: the table or the device refuses; the message names the rows there are.
    """
    return _raised([Judge(device).row(row_id)])[0]


def admit_all(row_ids: Iterable[str], *, device: Device) -> Mapping[str, Admitted]:
    """Admits each distinct row of a program, before anything is allocated.

    Raises:
        AdmissionError: a row is refused.
    """
    judge = Judge(device)
    answers = [judge.row(row_id) for row_id in dict.fromkeys(row_ids)]
    return {answer.id: answer for answer in _raised(answers)}


def admit_combination(run: Combination, *, device: Device) -> tuple[AdmittedCell, ...]:
    """Admits what a run is made of, before its graph is built.

    Raises:
        AdmissionError: a capability is refused.
    """
    judge = Judge(device)
    return _raised([judge.cell(cell) for cell in run.cells()])


def _raised(answers: "Iterable[Answer | Refused]") -> "tuple[Answer, ...]":
    admitted: list[Answer] = []
    refused: list[Refused] = []
    for answer in answers:
        if isinstance(answer, Refused):
            refused.append(answer)
        else:
            admitted.append(answer)
    if not refused:
        return tuple(admitted)
    error = refused[0].error()
    if len(refused) > 1:
        more = f"{error.remedy}; {len(refused) - 1} more are refused: `retrograd preflight` lists"
        raise AdmissionError(error.where, error.rule, error.got, f"{more} them")
    raise error


def summary(admitted: Mapping[str, Admitted]) -> list[str]:
    """Lines for the user: how many rows a program uses, by state, and what to know of them."""
    states: dict[str, int] = {}
    for entry in admitted.values():
        states[entry.state] = states.get(entry.state, 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    notes: dict[str, int] = {}
    for entry in admitted.values():
        if entry.note:
            notes[entry.note] = notes.get(entry.note, 0) + 1
    lines = [f"{count} of them: {note}" for note, count in notes.items()]
    return [f"kernel rows: {len(admitted)} admitted ({counts})", *lines]


class Judge:
    """Answers for one device, by the table and the overlay as they are now."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.place = place_of(device)
        evidence = _judged_by.get() or Evidence(packaged(), read_overlay(self.place))
        self.table = evidence.table
        self.standing = Standing(evidence.table, evidence.overlay, self.place, device.digests)
        self._collecting = _collecting.get()

    def row(self, row_id: str) -> Admitted | Refused:
        """The answer for a kernel row."""
        declared = {row.id: row for row in declared_rows()}
        if row_id not in declared:
            rule, remedy = "a node runs on a declared kernel row", self._kin(row_id)
            return Refused(row_id, NOT_MEASURED, "admission", rule, row_id, remedy)
        found, note = self.standing.row(row_id)
        if found.state not in ADMITTED and not self._collecting:
            rule = "a kernel row is verified or transferred before it runs"
            return self._refused(row_id, found, rule, self._kin(row_id))
        return self._asked(declared[row_id], found) or Admitted(declared[row_id], found.state, note)

    def cell(self, cell_id: str) -> AdmittedCell | Refused:
        """The answer for a capability: that of the worst of the rows it needs."""
        cell = self.table.cells.get(cell_id)
        if cell is None:
            cell, found, note = Cell(cell_id, "", ""), Finding(NOT_MEASURED, "not listed"), ""
        else:
            found, note = self.standing.cell(cell)
        if found.state not in ADMITTED and not self._collecting:
            rule = "what a run is made of is verified or transferred"
            return self._refused(cell_id, found, rule, self._kin_cells(cell_id))
        return AdmittedCell(cell, found.state, note)

    def _asked(self, row: Row, found: Finding) -> Refused | None:
        """What the live device answers: None, or why it cannot run a row."""
        device = self.device
        rebuild = f"rebuild or reinstall the {device.name} backend"
        if row.id not in device.layouts:
            rule, got = "this build holds the kernel row", f"no {row.id}"
            return Refused(row.id, found.state, device.name, rule, got, rebuild)
        odd = layout_fault(row, device.layouts[row.id])
        if odd:
            rule = "the argument struct of a row is the one its op implies"
            got = f"{row.id}: {odd}"
            return Refused(row.id, found.state, device.name, rule, got, rebuild)
        if device.probe().get("has_faults") and not self._collecting:
            rule = "the library holds no planted faults"
            got = f"a test build, asked for {row.id}"
            return Refused(row.id, found.state, device.name, rule, got, rebuild)
        return None

    def _refused(self, name: str, found: Finding, rule: str, kin: str) -> Refused:
        where = f"{found.state} on {self.place.environment}"
        got = f"{name}: {where}" + (f" ({found.cause})" if found.cause else "")
        remedy = kin
        if found.state in (NOT_MEASURED, STALE):
            remedy += f"; or measure here: retrograd verify --device {self.place.backend}"
        return Refused(name, found.state, "admission", rule, got, remedy)

    def _kin(self, row_id: str) -> str:
        stem = ".".join(row_id.split(".")[:2])
        ids = [row.id for row in declared_rows() if row.id.startswith(f"{stem}.")]
        return _listing(stem, {name: self.standing.row(name)[0].state for name in ids})

    def _kin_cells(self, cell_id: str) -> str:
        topic = cell_id.partition(".")[0]
        cells = [c for c in self.table.cells.values() if c.id.startswith(f"{topic}.")]
        return _listing(topic, {c.id: self.standing.cell(c)[0].state for c in cells})


def layout_fault(row: Row, layout: Layout) -> str:
    """How a library's argument struct departs from what the op's signature implies, or nothing."""
    kernel = OPS[row.op].kernels[row.direction] if row.op in OPS else None
    if kernel is None:
        return ""  # functions that have a kernel and a lane, and no op
    scratch = ("scratch",) if kernel.scratch else ()
    pointers = (*kernel.inputs, *kernel.outputs, *scratch)
    found = tuple(name for name, kind, _, _ in layout.fields if kind == _POINTER)
    if found != pointers:
        return f"buffers {', '.join(found)} in place of {', '.join(pointers)}"
    settings = {name for name, kind, _, _ in layout.fields if kind not in (_POINTER, _INT64)}
    if settings != set(kernel.settings):
        names = ", ".join(sorted(settings)) or "none"
        return f"settings {names} in place of {', '.join(kernel.settings) or 'none'}"
    end = 0
    for name, _, offset, n_bytes in layout.fields:
        if offset < end or offset + n_bytes > layout.n_bytes:
            return f"'{name}' lies at byte {offset} of {layout.n_bytes}, over another field"
        end = offset + n_bytes
    return ""


def _listing(what: str, states: Mapping[str, str]) -> str:
    """What there is in place of something refused: the admitted first, then some of the others."""
    if not states:
        return f"nothing is listed for {what}"
    good = [name for name, state in states.items() if state in ADMITTED]
    rest = [name for name in states if name not in good]
    shown = [*good, *rest[: max(_SHOWN - len(good), 0)]]
    names = ", ".join(f"{name} ({states[name]})" for name in shown)
    more = f" and {len(states) - len(shown)} more" if len(states) > len(shown) else ""
    intro = "use one of" if good else f"none of {what} is admitted"
    return f"{intro}: {names}{more}"
