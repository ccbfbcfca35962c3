"""Admission: the one place that says whether a kernel row may run.

The evidence table does not exist yet in this version, so a declared row is admitted with the state
``not measured`` and an undeclared one is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retrograd.errors import AdmissionError
from retrograd.rows import Row, declared_rows


@dataclass(frozen=True)
class Admitted:
    """A row that may run, and what is known of it."""

    row: Row
    state: str


def admit(row_id: str) -> Admitted:
    """Admits a declared row.

    Raises:
        AdmissionError: no row of that id is declared; the message lists the rows of the same op and
            direction.
    """
    by_id = {row.id: row for row in declared_rows()}
    if row_id in by_id:
        return Admitted(by_id[row_id], "not measured")
    prefix = ".".join(row_id.split(".")[:2]) + "."
    kin = [known for known in by_id if known.startswith(prefix)]
    known = ", ".join(kin) if kin else "none for this op and direction"
    raise AdmissionError(
        "admission", "a node runs on a declared kernel row", row_id, f"use one of: {known}"
    )


def admit_all(row_ids: Iterable[str]) -> Mapping[str, Admitted]:
    """Admits each distinct row of a program, before anything is allocated."""
    return {row: admit(row) for row in dict.fromkeys(row_ids)}


def summary(admitted: Mapping[str, Admitted]) -> str:
    """One line for the user: how many rows the program uses, by state."""
    states: dict[str, int] = {}
    for entry in admitted.values():
        states[entry.state] = states.get(entry.state, 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"kernel rows: {len(admitted)} admitted ({counts})"
