"""Committed plans: the rows and the number of cases that a lane has to observe, with a hash.

``lanes/plans/<lane>.toml`` is written by ``python -m lanes plan --write`` and checked by
``--check``. A lane whose cases are not those of its committed plan verifies nothing, so that a
row cannot leave a lane unnoticed.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanes.registry import Lane, LaneError, Planned, lanes
from native.digests import canonical

FOLDER = Path(__file__).with_name("plans")
PLANS = ("fast", "full")
REMEDY = "run `python -m lanes plan --write` and let a reviewer read the change"
_SHARD = re.compile(r"([0-9]+)/([0-9]+)")


@dataclass(frozen=True)
class Size:
    """A plan in short: rows, cases, and the SHA-256 of the sorted list of [row, case, inputs]."""

    rows: int
    cases: int
    sha256: str

    def record(self) -> dict[str, object]:
        """As a receipt carries it."""
        return {"rows": self.rows, "cases": self.cases, "sha256": self.sha256}


def size_of(cases: Iterable[tuple[str, str, int]]) -> Size:
    """The size of a list of row, case and number of inputs."""
    ordered = sorted(cases)
    digest = hashlib.sha256(canonical([list(entry) for entry in ordered])).hexdigest()
    return Size(len({row for row, _, _ in ordered}), len(ordered), digest)


def size_of_planned(cases: Iterable[Planned]) -> Size:
    """The size of a plan."""
    return size_of((case.row, case.case, case.inputs) for case in cases)


def size_of_ended(cases: Iterable[Mapping[str, Any]]) -> Size:
    """The size of the cases of a receipt."""
    return size_of((c["row"], c["case"], c["counters"].get("inputs", 0)) for c in cases)


def committed(lane: str) -> Mapping[str, Size]:
    """What the committed plan of a lane says, by name of the plan.

    Raises:
        LaneError: there is none, or it is no plan.
    """
    path = FOLDER / f"{lane}.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: Size(**document[name]) for name in PLANS}
    except (OSError, KeyError, TypeError, ValueError) as error:
        rule = "a lane has a committed plan"
        raise LaneError("plan", rule, f"{path.name}: {error!r}", REMEDY) from error


def checked(lane: Lane, plan: str) -> tuple[Planned, ...]:
    """The cases of a lane in a plan, which are those of the committed one.

    Raises:
        LaneError: the plan is unknown, or the committed one has other cases.
    """
    if plan not in PLANS:
        raise LaneError("plan", "the plan is one of those there are", plan, f"use {PLANS}")
    cases = lane.planned(plan)
    found, wanted = size_of_planned(cases), committed(lane.name)[plan]
    if found != wanted:
        rule = f"the cases of {lane.name} are those of its committed plan, {wanted}"
        raise LaneError("plan", rule, found, REMEDY)
    return cases


def shard_of(text: str) -> tuple[int, int]:
    """``i/n`` with 1 <= i <= n.

    Raises:
        LaneError: it is not.
    """
    found = _SHARD.fullmatch(text)
    part, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= of:
        raise LaneError("plan", "a shard is i/n with i from 1 to n", text, "use --shard 1/2, 2/2")
    return part, of


def share(cases: Sequence[Planned], shard: tuple[int, int]) -> tuple[Planned, ...]:
    """The cases of a shard: every n-th of the sorted list.

    Raises:
        LaneError: there is none.
    """
    part, of = shard
    found = tuple(cases[part - 1 :: of])
    if not found:
        got = f"shard {part}/{of} of {len(cases)} cases"
        raise LaneError("plan", "a shard holds cases", got, "use fewer shards")
    return found


def text(lane: Lane) -> str:
    """The plan file of a lane."""
    planned = {plan: lane.planned(plan) for plan in PLANS}
    rows = sorted({case.row for cases in planned.values() for case in cases})
    lines = ["# Written by `python -m lanes plan --write`, never by hand.", "rows = ["]
    lines += [f'  "{row}",' for row in rows] + ["]"]
    for plan, cases in planned.items():
        size = size_of_planned(cases)
        lines += ["", f"[{plan}]", f"rows = {size.rows}", f"cases = {size.cases}"]
        lines.append(f'sha256 = "{size.sha256}"')
    return "\n".join([*lines, ""])


def stale() -> dict[Path, str]:
    """Plan files that are not what the lanes would write, with what they would."""
    wanted = {FOLDER / f"{name}.toml": text(lane) for name, lane in lanes().items()}
    return {
        path: content
        for path, content in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    }


def orphans() -> list[Path]:
    """Plan files without a lane."""
    names = {f"{name}.toml" for name in lanes()}
    return sorted(path for path in FOLDER.glob("*.toml") if path.name not in names)


def settle(*, write: bool) -> int:
    """Writes or checks all plan files; 1 when a check finds one that is not right."""
    wrong = stale()
    for path in orphans():
        print(f"{path.name}: no lane of that name")
        if write:
            path.unlink()
        else:
            wrong[path] = ""
    for path, content in wrong.items():
        if write:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
        print(f"{path.name}: {'written' if write else f'stale; {REMEDY}'}")
    if not write:
        print(f"{len(wrong)} plans are stale")
    return 1 if wrong and not write else 0
