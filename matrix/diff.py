"""What changed between two tables, and why: source, tolerance, driver, device gone, declaration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matrix.canonical import Json
from matrix.findings import changed_parts
from matrix.topics import BASE_DTYPE, CAPABILITIES

ABSENT = "absent"
ROWS = ("kernel_rows", "lane_rows")
CELLS = (CAPABILITIES, BASE_DTYPE)
_SHOWN = 3


@dataclass(frozen=True, order=True)
class Change:
    """A state that is another one now.

    Attributes:
        id: of the row or cell.
        env_class: for rows; empty for cells.
        old, new: states; ``absent`` where there was no such row, cell or class.
        cause: what brought it about.
    """

    section: str
    id: str
    env_class: str
    old: str
    new: str
    cause: str

    def __str__(self) -> str:
        where = f"{self.id} [{self.env_class}]" if self.env_class else self.id
        return f"{where}: {self.old} -> {self.new}; {self.cause}"


def changes(old: Json, new: Json) -> tuple[Change, ...]:
    """Every state that differs, cells first."""
    rows = [change for section in ROWS for change in _row_changes(section, old, new)]
    by_row: dict[str, list[Change]] = {}
    for change in rows:
        by_row.setdefault(change.id, []).append(change)
    cells = [c for section in CELLS for c in _cell_changes(section, old, new, by_row)]
    return (*cells, *rows)


def _row_changes(section: str, old: Json, new: Json) -> Iterator[Change]:
    before, after = old[section], new[section]
    for row_id in sorted({*before, *after}):
        was, now = before.get(row_id), after.get(row_id)
        states_was: Json = was["states"] if was else {}
        states_now: Json = now["states"] if now else {}
        for name in sorted({*states_was, *states_now}):
            first, second = states_was.get(name), states_now.get(name)
            state, state_now = _state(first), _state(second)
            if state == state_now:
                continue
            if was is None or now is None:
                cause = "declaration: row added" if was is None else "declaration: row removed"
            elif first is None or second is None:
                cause = "environment added" if first is None else "device gone"
            else:
                same = was["digest"] == now["digest"]
                parts = [] if same else changed_parts(was["parts"], now["parts"])
                cause = _cause(old, new, first, second, parts)
            yield Change(section, row_id, name, state, state_now, cause)


def _state(entry: Mapping[str, Any] | None) -> str:
    return entry["state"] if entry else ABSENT


def _cause(old: Json, new: Json, was: Json, now: Json, parts: list[str]) -> str:
    after = new["receipts"].get(now["receipt"])
    before = old["receipts"].get(now["receipt"] or was["receipt"])
    if now["cause"].partition(": ")[2].startswith("tolerance"):
        return now["cause"]
    if parts:
        return f"source: {', '.join(parts)}"
    if before and not after:
        return f"receipt gone: {now['cause']}"
    if before and after:
        for what in ("driver", "device"):
            if before[what] != after[what]:
                return f"{what}: {before[what]} -> {after[what]}"
        if before["self_digest"] == after["self_digest"]:
            tolerance = was["bound"] != now["bound"]
            return "tolerance" if tolerance else f"declaration: {now['cause'] or 'changed'}"
    return f"run: {now['cause'] or 'its lane passed'}"


def _cell_changes(
    section: str, old: Json, new: Json, by_row: Mapping[str, list[Change]]
) -> Iterator[Change]:
    before, after = old[section], new[section]
    for cell_id in sorted({*before, *after}):
        was, now = before.get(cell_id), after.get(cell_id)
        state, state_now = _state(was), _state(now)
        if state == state_now:
            continue
        cause = "declaration: cell added" if was is None else "declaration: cell removed"
        if was and now:
            needs = {row for rows in now["needs"].values() for row in rows}
            causes = [f"{c.id}: {c.cause}" for row in sorted(needs) for c in by_row.get(row, [])]
            cause = "; ".join(list(dict.fromkeys(causes))[:_SHOWN]) or "declaration: its needs"
        yield Change(section, cell_id, "", state, state_now, cause)
