"""The parts of the table, each a plain mapping that goes to JSON as it is."""

from collections.abc import Iterable, Mapping

from matrix.canonical import Json
from matrix.declared import Cell, Declarations, Environment
from matrix.findings import Current, Finding, Findings
from matrix.receipts import Receipt
from matrix.states import NOT_MEASURED, REFUSED, VERIFIED, worst


def rows(declared: Declarations, current: Current, findings: Findings, *, kernel: bool) -> Json:
    """Kernel rows, or the rows that belong to lanes alone, with their state in each class."""
    found: Json = {}
    for row_id, states in findings.items():
        row = declared.kernel_rows.get(row_id)
        if (row is not None) != kernel:
            continue
        entry: Json = {
            "digest": current.digests.get(row_id),
            "parts": dict(current.parts.get(row_id, {})),
            "lanes": sorted(lane for lane, ids in declared.coverage.items() if row_id in ids),
            "states": {name: _state(finding) for name, finding in states.items()},
        }
        if row is not None:
            entry |= {"backend": row.backend, "contract": row.contract}
        found[row_id] = entry
    return found


def _state(finding: Finding) -> Json:
    receipt = finding.receipt
    return {
        "state": finding.state,
        "cause": finding.cause,
        "receipt": receipt.path if receipt else None,
        "digest": finding.digest,
        "toolchain": receipt.toolchain if receipt else None,
        "worst": finding.worst,
        "bound": finding.bound,
        "grade": finding.grade,
        "elements": finding.elements,
    }


def cells(declared: Declarations, findings: Findings, kind: str) -> Json:
    """Capability cells, each the worst of the rows it needs."""
    found: Json = {}
    for topic in declared.topics:
        if topic.kind != kind:
            continue
        for row in topic.rows:
            for cell in row.cells.values():
                found[cell.id] = {
                    "topic": topic.id,
                    "row": row.id,
                    **({"facts": dict(row.facts)} if row.facts else {}),
                    **_cell(declared, findings, cell),
                }
    return found


def _cell(declared: Declarations, findings: Findings, cell: Cell) -> Json:
    entry: Json = {
        "backend": cell.backend,
        "manual": cell.manual,
        "refuse": cell.refuse,
        "needs": {lane: list(ids) for lane, ids in cell.needs.items()},
    }
    if not cell.needs:
        return entry | {"state": NOT_MEASURED, "cause": "nothing is built", "classes": {}}
    local = [e for e in declared.environments if e.backend == cell.backend]
    classes = {
        name: _cell_in_class(findings, cell, name)
        for name in dict.fromkeys(e.env_class for e in local)
    }
    # A class where nothing is promised is listed; it neither lifts nor lowers the cell.
    promised = dict.fromkeys(e.env_class for e in local if e.lanes)
    if not promised:
        cause = f"no environment of {cell.backend} promises evidence"
        return entry | {"state": NOT_MEASURED, "cause": cause, "classes": classes}
    state = worst(classes[name]["state"] for name in promised)
    causes = {classes[name]["cause"]: None for name in promised if classes[name]["state"] == state}
    return entry | {"state": state, "cause": "; ".join(c for c in causes if c), "classes": classes}


def _cell_in_class(findings: Findings, cell: Cell, env_class: str) -> Json:
    lack = Finding(NOT_MEASURED, f"{env_class} does not run it")
    states = {row: findings[row].get(env_class, lack) for row in cell.row_ids}
    state = worst(finding.state for finding in states.values())
    wanted = REFUSED if cell.refuse else VERIFIED
    held = [row for row, finding in states.items() if finding.state != wanted]
    cause = next((f"{row}: {f.cause}" for row, f in states.items() if f.state == state), "")
    receipts = {f.receipt.path for f in states.values() if f.receipt}
    return {
        "state": state,
        "cause": cause if held else (cell.refuse or ""),
        "held_back_by": held,
        "receipts": sorted(receipts),
        **_largest_share(states),
    }


def _largest_share(states: Mapping[str, Finding]) -> Json:
    """The row that uses most of its bound, with its figures."""
    shares = {
        row: f.worst / f.bound for row, f in states.items() if f.worst is not None and f.bound
    }
    if not shares:
        return {"closest": None}
    row = max(sorted(shares), key=shares.__getitem__)
    return {"closest": {"row": row, "worst": states[row].worst, "bound": states[row].bound}}


def environments(
    declared: Declarations,
    used: Iterable[Receipt],
    observed: Mapping[str, Mapping[tuple[str, str], Finding]],
) -> Json:
    """What each environment promises, and the rows that still keep it from being kept."""
    by_place = {receipt.place: receipt for receipt in used}
    return {
        environment.folder: {
            "class": environment.env_class,
            "toolchain": environment.toolchain,
            "backend": environment.backend,
            "lanes": {
                lane: _promise(declared, environment, lane, by_place, observed)
                for lane in environment.lanes
            },
        }
        for environment in declared.environments
    }


def _promise(
    declared: Declarations,
    environment: Environment,
    lane: str,
    by_place: Mapping[str, Receipt],
    observed: Mapping[str, Mapping[tuple[str, str], Finding]],
) -> Json:
    receipt = by_place.get(f"{environment.folder}/{lane}.json")
    missing: dict[str, str] = {}
    for row_id in sorted(declared.coverage.get(lane, ())):
        if declared.backend_of(row_id) not in (None, environment.backend):
            continue
        finding = observed.get(row_id, {}).get((environment.folder, lane))
        state = finding.state if finding else NOT_MEASURED
        if state != (REFUSED if row_id in declared.refusals else VERIFIED):
            missing[row_id] = state
    return {
        "receipt": receipt.path if receipt else None,
        "plan": receipt.plan if receipt else None,
        "missing": missing,
    }


def header(receipt: Receipt) -> Json:
    """What readers of the table need to know of a receipt without opening it."""
    return {
        "lane": receipt.lane,
        "plan": receipt.plan,
        "command": receipt.command,
        "seed": receipt.seed,
        "started": receipt.started,
        "version": receipt.version,
        "commit": receipt.commit,
        "class": receipt.env_class,
        "toolchain": receipt.toolchain,
        "backend": receipt.backend,
        "device": receipt.device,
        "driver": receipt.driver,
        "self_digest": receipt.self_digest,
    }
