"""What has to be run before a release, where, with which command; and what holds it back."""

from collections.abc import Iterator
from dataclasses import dataclass

from matrix.canonical import Json
from matrix.declared import Declarations, Environment

_SHOWN = 3


@dataclass(frozen=True)
class Task:
    """A lane to run in an environment.

    Attributes:
        missing: rows that are not shown there, with their state now.
        reason: what is missing, in words.
    """

    environment: Environment
    lane: str
    missing: tuple[tuple[str, str], ...]
    reason: str

    @property
    def command(self) -> str:
        e = self.environment
        return e.command.replace("{lane}", self.lane).replace("{plan}", e.plan)

    def __str__(self) -> str:
        by_hand = "by hand, " if self.environment.manual else ""
        return (
            f"{self.environment.folder} {self.lane}: {self.reason}\n"
            f"  on: {by_hand}{self.environment.hardware}\n  run: {self.command}"
        )


def tasks(declared: Declarations, table: Json) -> tuple[Task, ...]:
    """Lanes whose promise is not kept by the table, in the order of the declarations."""
    return tuple(
        task
        for environment in declared.environments
        for lane in environment.lanes
        for task in _task(environment, lane, table["environments"][environment.folder]["lanes"])
    )


def _task(environment: Environment, lane: str, lanes: Json) -> Iterator[Task]:
    promise: Json = lanes[lane]
    missing = tuple(promise["missing"].items())
    if promise["receipt"] is None:
        covered = f"{len(missing)} rows" if missing else "its plan is not committed"
        yield Task(environment, lane, missing, f"no receipt ({covered})")
    elif missing:
        states = {state: sum(s == state for _, s in missing) for _, state in missing}
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        names = ", ".join(row for row, _ in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        yield Task(environment, lane, missing, f"{counts}: {names}{more}")
    elif environment.plan == "full" and promise["plan"] != "full":
        yield Task(environment, lane, (), f"run with the plan `{promise['plan']}` only")


def held_back(declared: Declarations, table: Json) -> tuple[str, ...]:
    """Every row that keeps the claimed backends from a release, with the reason; empty: release."""
    claimed = declared.release.claimed
    found: list[str] = []
    for task in tasks(declared, table):
        if task.environment.backend not in claimed:
            continue
        where = f"{task.environment.folder} {task.lane}"
        found += [f"{row} [{where}]: {state}" for row, state in task.missing]
        if not task.missing:
            found.append(f"[{where}]: {task.reason}")
    for backend in claimed:
        if not any(e.backend == backend and e.lanes for e in declared.environments):
            found.append(f"[{backend}]: claimed, and no environment promises evidence")
        if not declared.release.architectures.get(backend):
            found.append(f"[{backend}]: claimed, and no architecture is pinned")
    return tuple(found)
