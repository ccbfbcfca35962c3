"""The bounds of ``tolerances.toml``, and the law that sets them. Nothing serves as a default.

bound = min(derived ceiling, 2 x the worst observed, rounded up to {1, 2, 5} x 10^k). A new
measurement may lower a bound when it rests on at least as many samples and seeds and on every
environment of the old one; it can never raise one.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# A subject whose name begins with one of the later ones is no kernel row.
SECTIONS = ("row", "whole", "interop")
PATH = Path(__file__).with_name("tolerances.toml")


class NoBoundError(Exception):
    """A row has no recorded bound."""


class RaisedError(Exception):
    """A measurement lies above the recorded bound, which no command may raise."""


@dataclass(frozen=True)
class Tolerance:
    """What is recorded of one row; distances in steps of the comparator.

    Attributes:
        samples: elements compared.
        seeds: number of seeds.
        environments: classes that were measured, such as ``cpu-avx2``, sorted.
        worst, p999: largest and 99.9th percentile distance observed.
        ceiling: largest derived ceiling over the cases.
        bound: what a lane asserts.
    """

    samples: int
    seeds: int
    environments: tuple[str, ...]
    worst: float
    p999: float
    ceiling: float
    bound: float


def lawful_bound(worst: float, ceiling: float) -> float:
    """min(ceiling, twice the worst, rounded up to 1, 2 or 5 times a power of ten)."""
    if worst > ceiling:
        raise ValueError(
            f"observed {worst} steps above the derived ceiling {ceiling}: "
            "the kernel or the derivation is wrong"
        )
    if worst == 0:
        return 0.0
    # The logarithm may round across a power of ten, hence 10 and 20.
    power = 10.0 ** math.floor(math.log10(2 * worst))
    rounded = next(f * power for f in (1, 2, 5, 10, 20) if f * power >= 2 * worst)
    return min(ceiling, float(f"{rounded:.6g}"))


def merged(old: Tolerance | None, new: Tolerance, row_id: str) -> Tolerance:
    """What to record after a measurement: the wider one, with the lower bound of the two.

    Raises:
        RaisedError: the new worst lies above the old bound.
    """
    if old is None:
        return new
    if new.worst > old.bound:
        raise RaisedError(
            f"[{row_id}] observed {new.worst:.4g} steps, recorded bound {old.bound:g}; "
            "a bound is never raised: find the "
            "cause, or remove the entry in a reviewed change that names it"
        )
    rests_on_as_much = (
        new.samples >= old.samples
        and new.seeds >= old.seeds
        and set(new.environments) >= set(old.environments)
    )
    return replace(new, bound=min(old.bound, new.bound)) if rests_on_as_much else old


def read(path: Path = PATH) -> dict[str, Tolerance]:
    """Every recorded subject: kernel rows by id.

    Those of ``lanes.whole`` and of the interop lane by name.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    entries = {
        name: entry for section in SECTIONS for name, entry in document.get(section, {}).items()
    }
    return {name: _entry(**entry) for name, entry in entries.items()}


def _entry(*, environments: list[str], **numbers: Any) -> Tolerance:  # noqa: ANN401 — of TOML
    return Tolerance(environments=tuple(environments), **numbers)


def bound_of(row_id: str, table: Mapping[str, Tolerance]) -> float:
    """The row's bound.

    Raises:
        NoBoundError: the row was never measured.
    """
    if row_id not in table:
        raise NoBoundError(
            f"[{row_id}] every declared row has a measured bound; none recorded; "
            "run `python -m lanes.measure`"
        )
    return table[row_id].bound


def text(table: Mapping[str, Tolerance]) -> str:
    """The file's contents, section by section, each in alphabetical order."""
    lines = [
        "# Written by `python -m lanes.measure`, never by hand. Steps: see lanes/comparator.py.",
        "",
    ]
    for name in sorted(table, key=lambda n: (SECTIONS.index(_section(n)), n)):
        entry, section = table[name], _section(name)
        lines += [f'[{section}."{name}"]', f"samples = {entry.samples}", f"seeds = {entry.seeds}"]
        named = ", ".join(f'"{environment}"' for environment in entry.environments)
        lines.append(f"environments = [{named}]")
        lines += [
            f"{n} = {float(getattr(entry, n))!r}" for n in ("worst", "p999", "ceiling", "bound")
        ]
        lines.append("")
    return "\n".join(lines)


def _section(name: str) -> str:
    first = name.partition(".")[0]
    return first if first in SECTIONS else SECTIONS[0]
