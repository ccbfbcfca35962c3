"""What receipts say of each row: by receipt first, then folded by environment class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from matrix.declared import Declarations, Environment
from matrix.receipts import GRADES, Case, Receipt
from matrix.states import FAILED, NOT_MEASURED, REFUSED, SEVERITY, STALE, TRANSFERRED, VERIFIED


@dataclass(frozen=True)
class Current:
    """Digests of this checkout, in the form that receipts carry theirs.

    Attributes:
        digests: by row id; rows that this checkout has no digest for are left out.
        parts: digests of what each row's digest is made of, the comparator apart.
    """

    digests: Mapping[str, str]
    parts: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Finding:
    """What one receipt, or the lack of one, says of a row in an environment class."""

    state: str
    cause: str
    receipt: Receipt | None = None
    worst: float | None = None
    bound: float | None = None
    grade: str | None = None
    elements: int = 0
    digest: str | None = None


# By row id, then environment class.
Findings = Mapping[str, Mapping[str, Finding]]


def observations(
    declared: Declarations, used: Iterable[Receipt], current: Current
) -> dict[str, dict[tuple[str, str], Finding]]:
    """Findings by row id, then environment folder and lane."""
    found: dict[str, dict[tuple[str, str], Finding]] = {}
    for receipt in used:
        for row_id, cases in receipt.cases.items():
            finding = _finding(declared, receipt, row_id, cases, current)
            found.setdefault(row_id, {})[receipt.folder, receipt.lane] = finding
    return found


def _finding(
    declared: Declarations,
    receipt: Receipt,
    row_id: str,
    cases: Sequence[Case],
    current: Current,
) -> Finding:
    bound = declared.bounds.get(row_id)
    state, cause = _judged(declared, row_id, cases, bound)
    if receipt.digests[row_id] != current.digests.get(row_id):
        state, cause = STALE, _changed(receipt, row_id, current)
    elif state != FAILED and _of_another_plan(declared, receipt):
        state, cause = STALE, "changed since: the cases of its plan"
    distances = [case.worst for case in cases if case.worst is not None]
    bounds = [case.bound for case in cases if case.bound is not None]
    return Finding(
        state=state,
        cause=cause,
        receipt=receipt,
        worst=max(distances, default=None),
        bound=bound if bound is not None and bounds else max(bounds, default=None),
        # The strongest claim that all cases allow is the weakest grade among them.
        grade=max((case.grade for case in cases), key=GRADES.index),
        elements=sum(case.elements for case in cases),
        digest=receipt.digests[row_id],
    )


def _of_another_plan(declared: Declarations, receipt: Receipt) -> bool:
    """Whether other rows or cases were run than are planned now.

    Whoever drops a failing case would otherwise only have to drop a row beside it.
    """
    plan = declared.plans.get(receipt.lane)
    planned = plan.sizes.get(receipt.plan) if plan else None
    return planned is not None and planned != receipt.planned


def _changed(receipt: Receipt, row_id: str, current: Current) -> str:
    if row_id not in current.digests:
        return "this checkout has no digest for it"
    names = changed_parts(receipt.parts[row_id], current.parts[row_id])
    return f"changed since: {', '.join(names)}"


def changed_parts(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts that make two digests of a row differ."""
    names = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
    # What judged the row is the same for all rows and no part of its own.
    return names or ["comparator"]


def _judged(
    declared: Declarations, row_id: str, cases: Sequence[Case], bound: float | None
) -> tuple[str, str]:
    """State and cause of a row at the digest it was run with, by the bound that holds today."""
    refuse = declared.refusals.get(row_id)
    for case in cases:
        where = f"case {case.case}"
        if case.status == "failed":
            return FAILED, f"{where}: {case.reason}"
        if refuse is not None and (case.status != "refused" or case.reason != refuse):
            return FAILED, f"{where}: declared as refused ({refuse}); it {case.status}"
        if refuse is None and case.status == "refused":
            return FAILED, f"{where}: refused without a declaration: {case.reason}"
    if refuse is not None:
        return REFUSED, refuse
    for case in cases:
        if case.bound is None or case.worst is None:
            continue
        if bound is None and row_id in declared.kernel_rows:
            return STALE, "no bound is recorded for it"
        if bound is not None and case.worst > bound:
            return FAILED, f"case {case.case}: tolerance: {case.worst:g} above the bound {bound:g}"
    return VERIFIED, ""


def row_findings(
    declared: Declarations, row_id: str, observed: Mapping[tuple[str, str], Finding]
) -> dict[str, Finding]:
    """The row's finding in each environment class of its backend."""
    own: dict[str, list[Finding]] = {}
    backend = declared.backend_of(row_id)
    environments = [e for e in declared.environments if backend in (None, e.backend)]
    for environment in environments:
        findings = own.setdefault(environment.env_class, [])
        for lane in environment.lanes:
            if row_id in declared.coverage.get(lane, ()):
                lack = Finding(NOT_MEASURED, f"{environment.folder}/{lane}.json does not show it")
                findings.append(observed.get((environment.folder, lane), lack))
    states = {name: _worst_finding(found) for name, found in own.items() if found}
    held = REFUSED if row_id in declared.refusals else VERIFIED
    shown = {
        e.backend: e.env_class
        for e in reversed(environments)
        if e.env_class in states and states[e.env_class].state == held
    }
    elsewhere = {
        e.env_class: _elsewhere(e, shown, states) for e in environments if e.env_class not in states
    }
    return states | elsewhere


def _worst_finding(findings: Sequence[Finding]) -> Finding:
    def severity(finding: Finding) -> tuple[int, float, str]:
        share = finding.worst / finding.bound if finding.worst and finding.bound else 0.0
        path = finding.receipt.path if finding.receipt else ""
        return SEVERITY.index(finding.state), -share, path

    return min(findings, key=severity)


def _elsewhere(
    environment: Environment, shown: Mapping[str, str], states: Mapping[str, Finding]
) -> Finding:
    """The state in a class where no lane that covers the row is promised."""
    name = shown.get(environment.backend)
    if name is None:
        return Finding(NOT_MEASURED, f"no class of {environment.backend} shows it")
    if states[name].state == REFUSED:
        return states[name]  # a refusal does not depend on the class
    return replace(states[name], state=TRANSFERRED, cause=f"verified in {name}")
