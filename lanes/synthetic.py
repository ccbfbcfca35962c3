"""Tables that no receipt stands behind, so that admission is met in every state it can be in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lanes.starting import smallest_case, start_row, start_run, tiny_document
from lanes.trial import device
from retrograd.admission import Combination, judged_by, place_of
from retrograd.backends import Device, Layout, open_device
from retrograd.errors import RetrogradError
from retrograd.overlay import Local, Overlay, library_digest
from retrograd.rows import declared_rows
from retrograd.table import Cell, Finding, Table, TableRow

ROW = "swiglu.forward.f32.cpu"
CELL = "optimizers.adamw.cpu"
OTHER_DIGEST = "0" * 64
RUN = Combination("lora-sft", "qwen2", ("f32",), "adamw", "cpu")


@dataclass(frozen=True)
class Situation:
    """A table, an overlay and a device, and what admission has to make of them.

    Attributes:
        state: state of the row, or of what the cell needs, in the device's class; empty where the
            table lacks it.
        cell: whether a cell is asked for, by a whole run, in place of a row.
        elsewhere: the table knows another class only.
        kernel: digest that the table holds for the row; None for the library's own.
        local: what the overlay says of the row.
        alter: what is done to the device.
        by: who has to refuse; empty where nobody may.
        words: what the refusal has to say.
    """

    state: str
    cell: bool = False
    elsewhere: bool = False
    refuse: str | None = None
    kernel: str | None = None
    local: Callable[[Device], Local] | None = None
    alter: Callable[[Device], Device] | None = None
    by: str = ""
    words: str = ""

    @property
    def admitted(self) -> bool:
        return not self.by


def _states() -> dict[str, Situation]:
    found: dict[str, Situation] = {}
    for kind, cell in (("row", False), ("cell", True)):
        found[f"{kind} verified"] = Situation("verified", cell=cell)
        found[f"{kind} transferred"] = Situation("transferred", cell=cell)
        found[f"{kind} verified elsewhere"] = Situation("verified", cell=cell, elsewhere=True)
        for state in ("stale", "failed", "refused", "not measured"):
            found[f"{kind} {state}"] = Situation(state, cell=cell, by="admission", words=state)
        found[f"{kind} failed elsewhere"] = Situation(
            "failed", cell=cell, elsewhere=True, by="admission", words="not measured"
        )
        found[f"{kind} absent"] = Situation("", cell=cell, by="admission", words="not measured")
    return found


def _without_row(on: Device) -> Device:
    return _altered(on, {name: found for name, found in on.layouts.items() if name != ROW})


def _other_layout(on: Device) -> Device:
    layout = on.layouts[ROW]
    fields = (("renamed", *layout.fields[0][1:]), *layout.fields[1:])
    return _altered(on, {**on.layouts, ROW: replace(layout, fields=fields)})


def _altered(on: Device, layouts: Mapping[str, Layout]) -> Device:
    """A device that answers otherwise: its cached layouts are set before anyone asks."""
    other = replace(on)
    other.__dict__["layouts"] = layouts
    return other


def _with_faults(on: Device) -> Device:
    return open_device(on.name, threads=1, faults=True)


def _local(state: str, kernel: str | None = None) -> Callable[[Device], Local]:
    return lambda on: Local(state, "1" * 64, kernel or on.digests[ROW], "case x: too far")


# In the order in which a reader asks: the table, the device, the machine.
SITUATIONS: Mapping[str, Situation] = {
    **_states(),
    "row of another kernel": Situation(
        "verified", kernel=OTHER_DIGEST, by="admission", words="not the one that was measured"
    ),
    "cell declared as refused": Situation(
        "verified", cell=True, refuse="why not", by="admission", words="why not"
    ),
    "device lacks the row": Situation(
        "verified", alter=_without_row, by="cpu", words="this build holds the kernel row"
    ),
    "device has another layout": Situation(
        "verified", alter=_other_layout, by="cpu", words="argument struct"
    ),
    "device holds planted faults": Situation(
        "verified", alter=_with_faults, by="cpu", words="planted faults"
    ),
    "measured here": Situation("not measured", local=_local("verified")),
    "transferred and failed here": Situation(
        "transferred", local=_local("failed"), by="admission", words="on this machine: case x"
    ),
    "failed, though it holds here": Situation(
        "failed", local=_local("verified"), by="admission", words="failed"
    ),
    "measured here with another library": Situation(
        "not measured", local=_local("verified", OTHER_DIGEST), by="admission", words="not measured"
    ),
}


@dataclass(frozen=True)
class Made:
    """A table in which everything holds but one row or cell."""

    situation: Situation
    on: Device
    classes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """The class that the table knows: the device's, or one that nobody runs."""
        name = "cpu-other" if self.situation.elsewhere else self.on.env_class
        object.__setattr__(self, "classes", (name,))

    def table(self) -> Table:
        needs = {cell: f"probe.{cell}" for cell in RUN.cells()}
        odd = needs[CELL] if self.situation.cell else ROW
        rows = {row.id: self._row(row.id, odd) for row in declared_rows()}
        rows |= {name: self._row(name, odd) for name in needs.values()}
        if not self.situation.state:
            del rows[odd]
        cells = {
            cell: Cell(
                cell,
                cell.partition(".")[0],
                "cpu",
                (need,),
                self.situation.refuse if need == odd else None,
            )
            for cell, need in needs.items()
        }
        toolchains = dict.fromkeys(self.classes, frozenset({self.on.toolchain}))
        return Table(rows, cells, toolchains, dict.fromkeys(self.classes, "cpu"))

    def _row(self, name: str, odd: str) -> TableRow:
        found = self.situation
        state = found.state if name == odd else "verified"
        where = self.classes[0] if name == odd else self.on.env_class
        kernel = found.kernel if name == odd and found.kernel else self.on.digests.get(name)
        digest = "1" * 64
        return TableRow(
            name, {where: Finding(state, "made up")}, kernel, digest, kernel is not None
        )

    def overlay(self) -> Overlay | None:
        local = self.situation.local
        if local is None:
            return None
        rows = {ROW: local(self.on)}
        return Overlay(place_of(self.on), library_digest(self.on.digests), "2026-01-01", rows)


def refusal_of(situation: Situation, folder: Path) -> RetrogradError | None:
    """What the product says of a situation, or None where it starts."""
    own = device(1, None)
    on = situation.alter(own) if situation.alter else own
    made = Made(situation, on)
    with judged_by(made.table(), made.overlay()):
        if situation.cell:
            return start_run(tiny_document(folder)).refusal
        row = next(known for known in declared_rows() if known.id == ROW)
        return start_row(row, smallest_case(row), on).refusal
