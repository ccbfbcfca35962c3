"""Receipts and declarations become the table. Pure: same inputs, same bytes; no file is read.

The rule that makes the table hard to flatter: where an environment promises a lane, each row that
the lane covers is `not measured` there until the lane's receipt shows it. A receipt that nobody
promised is refused. So a failing receipt can only worsen a state, and taking one away never helps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from matrix.canonical import Json, digest_of
from matrix.declared import Declarations
from matrix.errors import Complaint, RefusedError
from matrix.findings import Current, observations, row_findings
from matrix.receipts import Receipt, parse
from matrix.sections import cells, environments, header, rows
from matrix.topics import BASE_DTYPE, CAPABILITIES

SCHEMA = 1
GENERATED = "by `python -m matrix reduce` from declarations and receipts; do not edit"


@dataclass(frozen=True)
class Reduction:
    """The table, and the receipts of unclean trees that it leaves out."""

    table: Json
    local: tuple[str, ...]


def reduce(
    declared: Declarations,
    receipts: Mapping[str, bytes],
    current: Current,
    *,
    is_ancestor: Callable[[str], bool],
) -> Reduction:
    """Builds the table.

    Args:
        declared: the declarations.
        receipts: content by path relative to the folder of receipts.
        current: digests of this checkout.
        is_ancestor: whether a commit belongs to the history of this checkout.

    Raises:
        RefusedError: a receipt breaks a rule; every such receipt and rule is named.
    """
    read = _read(declared, receipts, is_ancestor)
    used = [receipt for receipt in read if not receipt.dirty]
    observed = observations(declared, used, current)
    findings = {
        row_id: row_findings(declared, row_id, observed.get(row_id, {}))
        for row_id in sorted(set[str]().union(*declared.coverage.values()))
    }
    table: Json = {
        "_generated": GENERATED,
        "schema": SCHEMA,
        "kernel_rows": rows(declared, current, findings, kernel=True),
        "lane_rows": rows(declared, current, findings, kernel=False),
        CAPABILITIES: cells(declared, findings, CAPABILITIES),
        BASE_DTYPE: cells(declared, findings, BASE_DTYPE),
        "environments": environments(declared, used, observed),
        "receipts": {receipt.path: header(receipt) for receipt in used},
    }
    table["digest"] = digest_of(table)
    return Reduction(table, tuple(receipt.path for receipt in read if receipt.dirty))


def _read(
    declared: Declarations, receipts: Mapping[str, bytes], is_ancestor: Callable[[str], bool]
) -> list[Receipt]:
    """All receipts, by path.

    Raises:
        RefusedError: at least one breaks a rule.
    """
    read: list[Receipt] = []
    complaints: list[Complaint] = []
    for path in sorted(receipts):
        try:
            read.append(parse(path, receipts[path]))
        except RefusedError as error:
            complaints += error.complaints
    places: dict[str, str] = {}
    for receipt in read:
        complaints += _placed(receipt, places.setdefault(receipt.place, receipt.path))
        complaints += _wanted(declared, receipt)
        if not receipt.dirty and not is_ancestor(receipt.commit):
            rule = "the commit of a receipt is an ancestor of this checkout's"
            remedy = "run the lane at this checkout"
            complaints.append(Complaint(receipt.path, rule, receipt.commit, remedy))
    if complaints:
        raise RefusedError(complaints)
    return read


def _placed(receipt: Receipt, first: str) -> Iterator[Complaint]:
    if first != receipt.path:
        rule = "an environment and lane have one receipt; this one is a duplicate"
        yield Complaint(
            receipt.path, rule, f"{receipt.place}, also read from {first}", "remove one"
        )
    if receipt.place != receipt.path:
        rule = "a receipt lies where its environment and lane put it"
        yield Complaint(receipt.path, rule, receipt.place, "move it there, or run the lane again")


def _wanted(declared: Declarations, receipt: Receipt) -> Iterator[Complaint]:
    promised = {e.folder: e for e in declared.environments}.get(receipt.folder)
    if promised is None or receipt.lane not in promised.lanes:
        rule = "an environment promises the lanes it is measured by"
        got = f"lane {receipt.lane} in {receipt.folder}"
        yield Complaint(receipt.path, rule, got, "list it in matrix/environments.toml")
    elif (receipt.backend, receipt.env_class) != (promised.backend, promised.env_class):
        rule = f"{receipt.folder} is class {promised.env_class} of backend {promised.backend}"
        got = f"{receipt.env_class} of {receipt.backend}"
        yield Complaint(receipt.path, rule, got, "run the lane in the environment it names")
    covered = declared.coverage.get(receipt.lane, frozenset[str]())
    for row_id in receipt.cases:
        if row_id not in covered:
            rule = f"lane {receipt.lane} shows rows that are declared for it; this one is unknown"
            yield Complaint(receipt.path, rule, row_id, "declare it, or run the lane again")
        elif declared.backend_of(row_id) not in (None, receipt.backend):
            rule = f"a receipt of {receipt.backend} shows rows of {receipt.backend}"
            yield Complaint(receipt.path, rule, row_id, "run the lane on the row's backend")
