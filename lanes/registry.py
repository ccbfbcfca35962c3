"""Lanes by name: ``lanes/suite/<lane>.py`` is one lane, its tests say which cases they observe.

A lane is ordinary pytest. ``@lane`` above a test names the (row, case) pairs that the test
observes; the runner gives it one call for each of them, as ``row`` and ``case``. Tests of the
file without the decorator support the lane: one that fails falsifies every row of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import TypeVar, cast

from retrograd.errors import RetrogradError

SUITE = Path(__file__).with_name("suite")


class LaneError(RetrogradError):
    """A lane that cannot be run as it was asked for: nothing is verified, exit 2."""


class Need(Enum):
    """What a lane cannot do without, asked for before anything runs."""

    DEVICE = "the backend's library"
    FAULTS = "the test library that holds planted faults"
    BOUNDS = "lanes/tolerances.toml"
    COMPILER = "a C++ compiler"


@dataclass(frozen=True, order=True)
class Planned:
    """One case of a plan.

    Attributes:
        row: row id.
        case: unique within the row; for a kernel row the corpus.
        refuse: the reason that is predicted, where the case has to end refused.
        inputs: how many inputs are folded into it, where it folds any.
    """

    row: str
    case: str
    refuse: str = ""
    inputs: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.row, self.case


Rows = Callable[[str], Iterable[Planned]]
Test = TypeVar("Test", bound=Callable[..., object])


@dataclass(frozen=True)
class Part:
    """One test of a lane, and the cases that it observes in a plan."""

    lane: str
    test: str
    needs: tuple[Need, ...]
    rows: Rows


@dataclass(frozen=True)
class Lane:
    """Everything that one file of ``lanes/suite`` observes."""

    name: str
    parts: tuple[Part, ...]

    @property
    def source(self) -> Path:
        return SUITE / f"{self.name}.py"

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset(need for part in self.parts for need in part.needs)

    def planned(self, plan: str) -> tuple[Planned, ...]:
        """Every case of a plan in order of row and case.

        Raises:
            LaneError: there is none, or two tests observe one case.
        """
        cases = sorted(case for part in self.parts for case in part.rows(plan))
        twice = [a.key for a, b in pairwise(cases) if a.key == b.key]
        if not cases or twice:
            rule = f"lane {self.name} plans cases, each of them once"
            raise LaneError("plan", rule, twice[:3] or "none", f"correct {self.source.name}")
        return tuple(cases)


_PARTS: dict[str, dict[str, Part]] = {}
_MARK = "__lane_part__"


def lane(name: str, *, rows: Rows, needs: Iterable[Need] = ()) -> Callable[[Test], Test]:
    """Declares that a test observes these rows.

    Args:
        name: the lane; the name of the file.
        rows: the cases of a plan (``fast`` or ``full``), cheap to list: no array is made.
        needs: what has to be there.
    """

    def register(test: Test) -> Test:
        home = Path(test.__code__.co_filename).stem if isinstance(test, FunctionType) else "no"
        if home != name:
            rule = "a lane has the name of its file, and a file declares one lane"
            raise LaneError("lanes", rule, f"lane {name} in {home}.py", "rename one of them")
        part = Part(name, getattr(test, "__name__", ""), tuple(needs), rows)
        _PARTS.setdefault(name, {})[part.test] = part
        setattr(test, _MARK, part)
        return cast(Test, test)

    return register


def part_of(test: object) -> Part | None:
    """What a test of a lane observes; None for any other function."""
    found = getattr(test, _MARK, None)
    return found if isinstance(found, Part) else None


def lane_names() -> tuple[str, ...]:
    """Every lane there is, by file."""
    return tuple(sorted(path.stem for path in SUITE.glob("[a-z]*.py")))


def lanes() -> Mapping[str, Lane]:
    """Every lane by name, in a new dictionary.

    Raises:
        LaneError: a file declares none.
    """
    return {name: get_lane(name) for name in lane_names()}


def get_lane(name: str) -> Lane:
    """One lane by name.

    Raises:
        LaneError: there is no such file, or it declares no lane.
    """
    if name not in lane_names():
        known = ", ".join(lane_names())
        raise LaneError("lanes", "the lane is one of those there are", name, f"use one of: {known}")
    import_module(f"lanes.suite.{name}")
    parts = _PARTS.get(name)
    if not parts:
        rule = "a file of lanes/suite decorates at least one test with @lane"
        raise LaneError("lanes", rule, f"{name}.py", "decorate the tests that observe its rows")
    return Lane(name, tuple(parts.values()))
