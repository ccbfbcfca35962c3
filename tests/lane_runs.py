"""Receipts of the lane `rope_tables` as a run would write them, without running anything."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from lanes import plan, receipt
from lanes.digests import comparator_digest, current_digests, fixture_digests
from lanes.environment import probe
from lanes.lane_rows import lane_row_digests
from lanes.receipt import Json
from lanes.registry import Planned, get_lane
from lanes.stamp import product_stamp

LANE = "rope_tables"
ERRORS = {
    "max_abs": 3e-08,
    "p999_abs": 2.9e-08,
    "max_rel": 6e-08,
    "p999_rel": 5.5e-08,
    "max_ulp": 0.49,
    "p999_ulp": 0.48,
    "bits_differing": 0,
}


@cache
def _surroundings() -> tuple[Json, Json, str, dict[str, str]]:
    rows = {**current_digests(), **lane_row_digests()}
    product = replace(product_stamp(), changed=()).receipt()
    return {"rows": rows, "product": product}, probe(), comparator_digest(), fixture_digests()


def case(planned: Planned) -> Json:
    return {
        "row": planned.row,
        "case": planned.case,
        "corpus": planned.case,
        "seeds": [],
        "status": "passed",
        "reason": None,
        "elements": 4800,
        "errors": dict(ERRORS),
        "bound": 0.5,
        "grade": "bounded",
        "counters": {"inputs": planned.inputs},
    }


def made(shard: tuple[int, int] = (1, 1), *, rows: str = "*", lane: str = LANE) -> Json:
    """A clean receipt of a shard that keeps every rule, at the digests of this checkout."""
    planned = get_lane(lane).planned("full")
    cases = [case(entry) for entry in plan.share(planned, shard)]
    around, environment, comparator, fixtures = _surroundings()
    ids = [entry["row"] for entry in cases]
    digests, subject = receipt.digests_block(around["rows"], comparator, fixtures, ids)
    predicate = {
        "schema": 1,
        "product": around["product"],
        "run": {
            "lane": lane,
            "command": f"python -m lanes run {lane} --plan full",
            "seed": 0,
            "started": "2026-11-29T12:00:00Z",
            "duration_s": 1.5,
            "plan": "full",
            "shard": list(shard),
            "rows": rows,
        },
        "environment": environment,
        "plan": plan.size_of_planned(planned).record(),
        "executed": {"rows": len(set(ids)), "cases": len(cases)},
        "digests": digests,
        "cases": cases,
    }
    return receipt.statement(subject, predicate)


def edited(content: Json, change: Callable[[Json], None], *, resealed: bool) -> Json:
    """A copy with a change, and with the self-digest that fits it or the old one."""
    copy: Json = receipt.json.loads(receipt.encoded(content))
    change(copy)
    return receipt.sealed(copy) if resealed else copy


def set_at(*path: str | int, to: object) -> Callable[[Json], None]:
    """A change of one value."""

    def change(content: Json) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change
