"""What the table and this machine's overlay say of rows and capabilities on a live device.

Pure: nothing here reads a file or refuses; :mod:`retrograd.admission` does with it what follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from retrograd.overlay import Local, Overlay, Place, library_digest
from retrograd.table import (
    FAILED,
    NOT_MEASURED,
    REFUSED,
    STALE,
    TRANSFERRED,
    VERIFIED,
    Cell,
    Finding,
    Table,
    TableRow,
    worst,
)

ADMITTED = frozenset({VERIFIED, TRANSFERRED})


@dataclass(frozen=True)
class Standing:
    """States in one place, for one library.

    Attributes:
        place: where the kernels run.
        digests: the library's digest of each of its rows.
    """

    table: Table
    overlay: Overlay | None
    place: Place
    digests: Mapping[str, str]

    def cell(self, cell: Cell) -> tuple[Finding, str]:
        """State of a capability on this device, and what a user should know of it."""
        if cell.refuse is not None:
            return Finding(REFUSED, cell.refuse), ""
        if not cell.needs:
            return Finding(NOT_MEASURED, "nothing is built"), ""
        if cell.backend != self.place.backend:
            return Finding(NOT_MEASURED, f"this device is {self.place.backend}"), ""
        findings = {row: self.row(row) for row in cell.needs}
        found = worst({row: finding for row, (finding, _) in findings.items()})
        notes = [note for finding, note in findings.values() if finding.state == found.state]
        return found, notes[0]

    def row(self, row_id: str) -> tuple[Finding, str]:
        """State of a row on this device, and what a user should know of it."""
        row = self.table.rows.get(row_id) or TableRow(row_id, {})
        found = self._now(row, self._listed(row))
        local = self._local(row)
        if local is not None and local.state == FAILED:
            return Finding(FAILED, f"on this machine: {local.reason}"), ""
        if local is not None and found.state in (NOT_MEASURED, STALE, TRANSFERRED):
            return Finding(VERIFIED), "verified on this machine by `retrograd verify`"
        return found, found.cause if found.state in ADMITTED else ""

    def _listed(self, row: TableRow) -> Finding:
        """What the table says of a row in this environment class, or in the nearest one."""
        table, here = self.table, self.place
        own = row.findings.get(here.env_class)
        if own is not None:
            measured = table.toolchains.get(here.env_class, frozenset())
            if own.state != VERIFIED or here.toolchain in measured:
                return own
            near = ", ".join(f"{here.env_class}-{name}" for name in sorted(measured))
            return Finding(TRANSFERRED, f"verified in {near}; this is {here.environment}")
        local = {
            name: finding
            for name, finding in row.findings.items()
            if table.backends.get(name, here.backend) == here.backend
        }
        for name in sorted(local, key=lambda name: _distance(name, here.env_class)):
            if local[name].state == VERIFIED:
                near = _first_environment(table, name)
                return Finding(TRANSFERRED, f"verified in {near}; this is {here.environment}")
        refused = [finding for finding in local.values() if finding.state == REFUSED]
        lack = Finding(NOT_MEASURED, f"no environment of {here.backend} shows it")
        return refused[0] if refused else lack

    def _now(self, row: TableRow, found: Finding) -> Finding:
        """A state holds for the kernel that was measured: another one is stale."""
        built = self.digests.get(row.id)
        if found.state in ADMITTED and row.is_kernel and built and built != row.kernel:
            return Finding(STALE, "the library's kernel is not the one that was measured")
        return found

    def _local(self, row: TableRow) -> Local | None:
        overlay = self.overlay
        local = overlay.rows.get(row.id) if overlay else None
        if overlay is None or local is None:
            return None
        built = self.digests.get(row.id)
        if local.kernel is not None:
            holds = local.kernel == built
            # The same kernel under another op, oracle or comparator is another row.
            holds = holds and (built != row.kernel or local.digest == row.digest)
        else:
            holds = overlay.library == library_digest(self.digests)
            holds = holds and row.digest in (None, local.digest)
        return local if holds else None


def _first_environment(table: Table, env_class: str) -> str:
    return f"{env_class}-{min(table.toolchains.get(env_class, ()), default='any')}"


def _distance(name: str, wanted: str) -> tuple[int, str]:
    """Nearness of classes: by number where both end in one (cuda-sm80 to cuda-sm90), then name."""

    def number(text: str) -> int:
        digits = text[len(text.rstrip("0123456789")) :]
        return int(digits) if digits else 0

    return abs(number(name) - number(wanted)), name
