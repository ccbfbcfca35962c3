"""``python -m lanes.prove_comparator [--plan full]``: what the comparator sees and misses.

A perfect result is the replay of a pinned row, the oracle rounded once for a bounded one. Into it
goes one fault at a time, and everything that judges the row in its lane judges it here:

- one element with its sign flipped, zeroed, or times 1.5;
- every element times 1.02;
- one equal infinity on both sides beside a single fault that is seen without it; an infinity on
  one side only.

Single faults go where an element exceeds the row's *floor*: the distance that its bound forgives
(bound x step; 0 where bits are compared). The share of non-zero elements at or below the floor is
printed and limited. An element that is zero or not finite admits none of the single faults.

Controls are results that are right and no copies: by each instruction-set variant, and with the
sums of bounded rows in other orders. One control is one output judged; how many of them differ in
bits from the perfect result is printed beside them.
"""

import argparse
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lanes.case import Case
from lanes.catalogue import cases, corpora, drawn, fixed
from lanes.comparator import bitwise_equal, floors
from lanes.reorderings import reordered
from lanes.tolerances import Tolerance, bound_of, read
from lanes.trial import (
    DTYPES,
    Right,
    allowed_steps,
    device,
    execute,
    judgements,
    right_of,
    variants,
)
from retrograd.rows import Row, declared_rows

Output = NDArray[np.floating]
SINGLE = ("sign flip", "zeroed", "x 1.5")
BESIDE, ALONE, UNIFORM = "beside an equal infinity", "infinity on one side", "all x 1.02"
KINDS = (*SINGLE, BESIDE, ALONE, UNIFORM)
CONTROL = "control"
# What must be seen, as a share of what was injected; what may be left out; what a proof needs.
SEEN = {**dict.fromkeys(SINGLE, 0.999), BESIDE: 1.0, ALONE: 1.0, UNIFORM: 1.0}
MOST_EXCLUDED = 0.01
CONTROLS = {"fast": 200, "full": 100_000}
_PLACES = {"fast": 3, "full": 8}
_SAMPLE = (2, 5000)  # elements of a case that the sample takes
_WORK = 2_000_000  # product of its dimensions
_LARGE = 20_000  # elements of a case from which on fewer other orders are tried


@dataclass
class Shares:
    """Counts of one op and direction, its storage formats together.

    Attributes:
        injected, seen: faults by kind; for controls, results judged and alarms.
        elements, idle, excluded: of all outputs; admitting no single fault; at or below the floor.
        differing: controls with other bits than the perfect result.
    """

    injected: dict[str, int] = field(default_factory=dict[str, int])
    seen: dict[str, int] = field(default_factory=dict[str, int])
    elements: int = 0
    idle: int = 0
    excluded: int = 0
    differing: int = 0
    missed: list[str] = field(default_factory=list[str])

    def count(self, kind: str, what: str, *, seen: bool) -> None:
        """One more fault or control."""
        self.injected[kind] = self.injected.get(kind, 0) + 1
        self.seen[kind] = self.seen.get(kind, 0) + seen
        if seen == (kind == CONTROL):
            self.missed.append(f"{kind}: {what}")

    def add(self, other: "Shares") -> None:
        """Everything that another one counted."""
        for kind, number in other.injected.items():
            self.injected[kind] = self.injected.get(kind, 0) + number
            self.seen[kind] = self.seen.get(kind, 0) + other.seen[kind]
        self.elements += other.elements
        self.idle += other.idle
        self.excluded += other.excluded
        self.differing += other.differing
        self.missed += other.missed

    def share(self, kind: str) -> float:
        """Seen of injected; 1 where nothing was."""
        return self.seen[kind] / self.injected[kind] if self.injected.get(kind) else 1.0

    @property
    def excluded_share(self) -> float:
        """Of the elements that admit a single fault."""
        return self.excluded / max(self.elements - self.idle, 1)


@dataclass(frozen=True)
class Subject:
    """A case with all that judges it."""

    row: Row
    case: Case
    right: Right
    bound: float

    def alarms(self, name: str, got: Output, right: Right | None = None) -> bool:
        """Whether anything that judges an output finds a fault."""
        found = judgements(self.row, self.case, name, got, right or self.right, bound=self.bound)
        return any(not verdict.holds for _, verdict in found)

    @property
    def title(self) -> str:
        return f"{self.row.id} [{self.case.name}]"


def perfect(subject: Subject, name: str) -> Output:
    """The result that could not be better, in the dtype of the output."""
    known = subject.case.expected.get(name, subject.right.replayed.get(name))
    if known is not None:
        return cast(Output, np.array(known))
    dtype = DTYPES[subject.case.outputs[name][1]]
    with np.errstate(over="ignore", under="ignore"):
        return subject.right.want[name].astype(dtype)


def floor_of(subject: Subject, name: str, like: Output) -> NDArray[np.float64]:
    """The distance that is forgiven, element by element."""
    case, right = subject.case, subject.right
    if name in case.exact or name in case.expected or name in right.replayed:
        return np.zeros(like.shape)
    allowed = allowed_steps(subject.row, case, subject.bound)
    finite = np.where(np.isfinite(right.want[name]), right.want[name], 0.0)
    return allowed * floors(finite, like.dtype, magnitude=right.sizes.get(name))


def inject(subject: Subject, places: int, rng: np.random.Generator, shares: Shares) -> None:
    """All kinds of faults in every output of a case."""
    for name, (shape, _) in subject.case.outputs.items():
        if not prod(shape):
            continue
        result = perfect(subject, name)
        if subject.alarms(name, result):
            raise ValueError(f"{subject.title} '{name}': the perfect result is refused")
        able = np.isfinite(result) & (result != 0)
        above = able & (np.abs(subject.right.want[name]) > floor_of(subject, name, result))
        shares.elements += result.size
        shares.idle += int((~able).sum())
        shares.excluded += int((able & ~above).sum())
        chosen = np.flatnonzero(above)
        if chosen.size > places:
            chosen = rng.choice(chosen, places, replace=False)
        for i, at in enumerate(chosen):
            for kind in SINGLE:
                seen = subject.alarms(name, _faulty(result, int(at), kind))
                what = f"{subject.title} '{name}' at {at}: {result.flat[at]!r}"
                shares.count(kind, what, seen=seen)
                if seen and kind == SINGLE[i % 3]:
                    _beside_infinity(subject, name, result, int(at), kind, rng, shares)
        _one_sided(subject, name, result, rng, shares)
        with np.errstate(over="ignore", under="ignore"):
            scaled = (result * result.dtype.type(1.02)).astype(result.dtype)
        if above.any() and not bitwise_equal(scaled, result).holds:
            seen = subject.alarms(name, scaled)
            shares.count(UNIFORM, f"{subject.title} '{name}'", seen=seen)


def _faulty(result: Output, at: int, kind: str) -> Output:
    broken = result.copy()
    flat = broken.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        match kind:
            case "sign flip":
                flat[at] = -flat[at]
            case "zeroed":
                flat[at] = 0
            case _:
                flat[at] *= result.dtype.type(1.5)
    return broken


def _beside_infinity(
    subject: Subject,
    name: str,
    result: Output,
    at: int,
    kind: str,
    rng: np.random.Generator,
    shares: Shares,
) -> None:
    """The same infinity in the result and in all that it is held against, and a fault elsewhere."""
    if result.size < 2:
        return
    other = (at + 1 + int(rng.integers(result.size - 1))) % result.size
    infinity = float(rng.choice([-np.inf, np.inf]))
    clean = _placed(result, other, infinity)
    moved = _with_infinity(subject, name, other, infinity)
    if moved.alarms(name, clean):
        raise ValueError(f"{subject.title} '{name}': an equal infinity is refused")
    seen = moved.alarms(name, _faulty(clean, at, kind))
    shares.count(BESIDE, f"{subject.title} '{name}' {kind} at {at}, {other}", seen=seen)


def _one_sided(
    subject: Subject, name: str, result: Output, rng: np.random.Generator, shares: Shares
) -> None:
    """An infinity in the result alone, and in the oracle alone, where the other side is finite."""
    with np.errstate(over="ignore"):
        rounded = subject.right.want[name].astype(result.dtype)
    finite = np.flatnonzero(np.isfinite(result) & np.isfinite(rounded))
    if not finite.size:
        return
    at, infinity = int(rng.choice(finite)), float(rng.choice([-np.inf, np.inf]))
    what = f"{subject.title} '{name}' at {at}"
    seen = subject.alarms(name, _placed(result, at, infinity))
    shares.count(ALONE, f"{what}, result", seen=seen)
    seen = _with_infinity(subject, name, at, infinity).alarms(name, result)
    shares.count(ALONE, f"{what}, oracle", seen=seen)


def _placed(array: Output, at: int, value: float) -> Output:
    changed = array.copy()
    changed.reshape(-1)[at] = value
    return changed


def _with_infinity(subject: Subject, name: str, at: int, value: float) -> Subject:
    """The subject with an infinity in everything that an output is held against."""
    case, right = subject.case, subject.right

    def changed(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        found = dict(arrays)
        if name in found:
            found[name] = _placed(np.asarray(found[name]), at, value)  # type: ignore[arg-type]
        return found

    moved = Right(changed(right.want), right.sizes, changed(right.replayed))  # type: ignore[arg-type]
    return replace(subject, case=replace(case, expected=changed(case.expected)), right=moved)


def control(subject: Subject, orders: int, rng: np.random.Generator, shares: Shares) -> None:
    """Right results that are no copies: every variant, and other orders of summation."""
    row, case = subject.row, subject.case
    for isa in variants():
        found = execute(device(1, isa), row, case, alias={}).outputs
        _judged(subject, isa, found, shares)
    large = sum(prod(shape) for shape, _ in case.outputs.values()) > _LARGE
    for _ in range(min(orders, 2) if large else orders):
        other = reordered(row, case, rng)
        if other is None:
            return
        for isa in variants():
            found = execute(device(1, isa), other.row, other.case, alias={}).outputs
            _judged(subject, f"{isa}, another order", other.back(found), shares)


def _judged(subject: Subject, how: str, found: Mapping[str, Output], shares: Shares) -> None:
    for name, got in found.items():
        if got.size:
            what = f"{subject.title} '{name}' {how}"
            shares.count(CONTROL, what, seen=subject.alarms(name, got))
            shares.differing += not bitwise_equal(got, perfect(subject, name)).holds


def _sampled(row: Row, number: int) -> Iterator[Case]:
    """One case of the `fast` plan; the corpora take turns from row to row."""
    names = [name for name in corpora(row, "fast") if name != "regression"]
    for shift in range(len(names)):
        corpus = names[(number + shift) % len(names)]
        for case in chain(drawn(row, 0, fast=True, corpus=corpus), fixed(row, corpus)):
            size = sum(prod(shape) for shape, _ in case.outputs.values())
            if _SAMPLE[0] <= size <= _SAMPLE[1] and 0 < prod(case.dims.values()) < _WORK:
                yield case
                return


def prove(
    plan: str, rows: Iterable[Row], bounds: Mapping[str, Tolerance], *, orders: int
) -> dict[str, Shares]:
    """Faults and controls over rows, by row id."""
    found: dict[str, Shares] = {}
    for number, row in enumerate(rows):
        shares = found.setdefault(row.id, Shares())
        rng = np.random.default_rng([zlib.crc32(row.id.encode()), 1])
        chosen = cases(row, plan) if plan == "full" else _sampled(row, number)
        for case in chosen:
            subject = Subject(row, case, right_of(row, case), bound_of(row.id, bounds))
            inject(subject, _PLACES[plan], rng, shares)
            control(subject, orders, rng, shares)
    return found


def folded(found: Mapping[str, Shares]) -> dict[str, Shares]:
    """Rows of one op and direction together."""
    result: dict[str, Shares] = {}
    for row_id, shares in found.items():
        result.setdefault(".".join(row_id.split(".")[:2]), Shares()).add(shares)
    return result


def table(found: Mapping[str, Shares]) -> str:
    """Shares in percent, the formats of an op together; the last line is the sum."""
    found = folded(found)
    head = ["row", "elements", "idle", "excl.", *KINDS, "controls", "differ", "alarms"]
    lines = [head]
    total = Shares()
    for shares in found.values():
        total.add(shares)
    for name, shares in [*found.items(), ("all", total)]:
        idle = shares.idle / max(shares.elements, 1)
        line = [
            name,
            str(shares.elements),
            f"{100 * idle:.1f}",
            f"{100 * shares.excluded_share:.3f}",
        ]
        line += [
            f"{100 * shares.share(kind):.2f} of {shares.injected.get(kind, 0)}" for kind in KINDS
        ]
        counts = (shares.injected.get(CONTROL, 0), shares.differing, shares.seen.get(CONTROL, 0))
        lines.append([*line, *map(str, counts)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            text.ljust(w) if not i else text.rjust(w)
            for i, (text, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def shortfalls(found: Mapping[str, Shares], controls: int) -> list[str]:
    """What the proof lacks; empty when it holds.

    Shares are asked of every op by itself, the limit of what is left out of every row.
    """
    lacking = [
        f"{name}: {100 * shares.excluded_share:.2f} % lie at or below the floor"
        for name, shares in found.items()
        if shares.excluded_share > MOST_EXCLUDED
    ]
    for name, shares in folded(found).items():
        for kind, least in SEEN.items():
            if shares.share(kind) < least:
                lacking.append(f"{name}: {kind} seen in {100 * shares.share(kind):.3f} %")
        if shares.seen.get(CONTROL):
            lacking.append(f"{name}: {shares.seen[CONTROL]} false alarms")
        if not all(shares.injected.get(kind) for kind in (*SINGLE, CONTROL)):
            lacking.append(f"{name}: nothing was injected")
    judged = sum(shares.injected.get(CONTROL, 0) for shares in found.values())
    if judged < controls:
        lacking.append(f"{judged} controls, needed are {controls}")
    return lacking


def main() -> int:
    """Prints the table; 1 when the proof does not hold."""
    parser = argparse.ArgumentParser(prog="python -m lanes.prove_comparator")
    parser.add_argument("--plan", choices=sorted(CONTROLS), default="fast")
    parser.add_argument("--only", default="", help="rows whose id contains this text")
    parser.add_argument("--orders", type=int, default=12, help="other orders of summation a case")
    options = parser.parse_args()
    start = time.monotonic()
    rows = [row for row in declared_rows() if options.only in row.id]
    found = prove(options.plan, rows, read(), orders=options.orders)
    print(table(found))
    for shares in found.values():
        print("".join(f"{text}\n" for text in shares.missed[:5]), end="")
    lacking = shortfalls(found, 0 if options.only else CONTROLS[options.plan])
    print("\n".join(lacking), file=sys.stderr)
    print(f"step=prove_comparator duration={time.monotonic() - start:.1f}s")
    return 1 if lacking else 0


if __name__ == "__main__":
    raise SystemExit(main())
