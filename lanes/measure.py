"""Writes ``lanes/tolerances.toml``: ``python -m lanes.measure [--only TEXT]``.

Kernel rows: every size in every corpus under eight seeds and what was captured from the real model,
on every instruction-set variant of this machine. Whole steps: eight seeds on its best variant.
Bounds are lowered or kept, never raised; a subject above its bound or its derived ceiling is named
and the exit code is 1.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lanes import tolerances
from lanes.catalogue import CAPTURED, MEASURE_SEEDS, drawn, fixed
from lanes.ceilings import ceiling
from lanes.tolerances import RaisedError, Tolerance
from lanes.trial import Failure, observe, variants
from lanes.whole import Measured, subjects
from retrograd.admission import collecting_evidence
from retrograd.rows import Row, declared_rows


class BrokenError(Exception):
    """A row fails on grounds that no bound can heal."""


def main() -> int:
    """Measures every subject whose name contains the given text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help="only rows and whole-model subjects whose name contains this text",
    )
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        work = {row.id: partial(measure_row, row) for row in declared_rows()}
        work |= {
            name: partial(measure_whole, rule, Path(folder)) for name, rule in subjects().items()
        }
        work = {name: rule for name, rule in work.items() if options.only in name}
        if not work:
            print(
                f"[measure] a subject is selected; got '{options.only}'; see rows.toml",
                file=sys.stderr,
            )
            return 2
        # Bounds come before evidence: what is measured here, no receipt shows yet.
        with collecting_evidence():
            return record(work)


def record(work: Mapping[str, Callable[[], Tolerance]]) -> int:
    """Measures and records one subject after the other; 1 where one lies above what it may."""
    refused = 0
    for name, rule in work.items():
        try:
            seen = rule()
            table = tolerances.read()  # again: another lane may have recorded its own meanwhile
            table[name] = tolerances.merged(table.get(name), seen, name)
        except (RaisedError, BrokenError) as error:
            print(error, file=sys.stderr)
            refused += 1
            continue
        print(
            f"{name}: worst {seen.worst:.4g}, p99.9 {seen.p999:.4g}, "
            f"bound {table[name].bound:g} of {seen.samples}"
        )
        tolerances.PATH.write_text(tolerances.text(table), encoding="utf-8")
    return 1 if refused else 0


def measure_row(row: Row) -> Tolerance:
    """Distances of one row over all seeds and corpora.

    Raises:
        BrokenError: a class, a canary, a replay, an exact case or a ceiling does not hold.
    """
    steps: list[np.ndarray] = []
    failures: list[Failure] = []
    limit = 0.0
    every = (drawn(row, seed, fast=False) for seed in MEASURE_SEEDS)
    for case in chain(*every, fixed(row, CAPTURED)):
        seen = observe(row, case, bound=None)
        failures += seen.failures
        steps += [part.astype(np.float32) for part in seen.steps]
        limit = max(limit, ceiling(row.op, row.direction, {**case.dims, **case.settings}))
    if failures:
        raise BrokenError("\n".join(str(f) for f in failures[:5]))
    return _summary(row.id, steps, limit, [f"{row.backend}-{isa}" for isa in variants()])


def measure_whole(rule: Callable[[Path, int], Measured], folder: Path) -> Tolerance:
    """Distances of one whole-model subject over all seeds."""
    results = [rule(folder, seed) for seed in MEASURE_SEEDS]
    steps, limit = [part for part, _ in results], max(limit for _, limit in results)
    return _summary("whole step", steps, limit, [f"cpu-{variants()[-1]}"])


def _summary(
    name: str, steps: Sequence[np.ndarray], limit: float, environments: Sequence[str]
) -> Tolerance:
    every = np.concatenate(steps) if steps else np.empty(0)
    worst = float(every.max(initial=0.0))
    if not every.size or not worst <= limit:
        raise BrokenError(
            f"[{name}] observed {worst} steps over {every.size} elements, derived ceiling {limit}"
        )
    return Tolerance(
        samples=every.size,
        seeds=len(MEASURE_SEEDS),
        environments=tuple(sorted(environments)),
        worst=float(f"{worst:.6g}"),
        p999=float(f"{float(np.quantile(every, 0.999)):.6g}"),
        ceiling=float(f"{limit:.6g}"),
        bound=tolerances.lawful_bound(worst, limit),
    )


if __name__ == "__main__":
    raise SystemExit(main())
