"""Digests of rows that are no kernel rows: what a lane observes of the product as a whole.

A lane's own rows (``model.step.qwen2-f32``) stand on everything that its file in ``lanes/suite``
imports, so all rows of a lane share one digest per part:

- ``kernel``: the digests of the kernels that the lane starts, all of them unless named here;
- ``op``: files of ``retrograd`` in the closure;
- ``oracle``: files of ``oracles`` in the closure; all of them where the lane's executors pick the
  oracle of a node by name;
- ``cases``: files of ``lanes`` and ``fixtures`` in the closure, the recorded bounds included,
  since no reader compares them with what such a row observed.

Like the digests of kernel rows these leave out the bookkeeping of the lanes.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from lanes.digests import PACKAGE, RowDigests, Sources, comparator_digest, declarations, row_digest
from native.digests import row_digests

PLANS = "lanes/plans"
_WITHIN = ("lanes/", "oracles/", "fixtures/", PACKAGE)
_BOOKKEEPING = frozenset({"lanes/registry.py", "lanes/runner.py"})
# Executors that find oracles and cases by the name of an op, which no import shows.
_BY_NAME = frozenset({"lanes/trial.py", "lanes/oracle_executor.py", "lanes/node_executor.py"})
# Lanes that start only kernels of one op, or none.
_OPS = {"formats": ("dequantize",), "rope_tables": ()}


def planned_rows(root: Path) -> dict[str, tuple[str, ...]]:
    """Rows of every committed plan, by lane."""
    plans = sorted((root / PLANS).glob("*.toml"))
    return {
        path.stem: tuple(tomllib.loads(path.read_text(encoding="utf-8"))["rows"]) for path in plans
    }


def lane_row_digests(
    sources: Sources | None = None, *, kernels: Mapping[str, str] | None = None
) -> dict[str, RowDigests]:
    """The digests of every planned row that is no kernel row; arguments as in `current_digests`."""
    sources = sources or Sources()
    declared = declarations(sources)
    if kernels is None:
        backends = sorted({str(row["backend"]) for row in declared.values()})
        kernels = {k: v for b in backends for k, v in row_digests(b, sources.root).items()}
    comparator = comparator_digest(sources)
    found: dict[str, RowDigests] = {}
    for lane, rows in planned_rows(sources.root).items():
        own = [row for row in rows if row not in declared]
        parts = _parts(sources, lane, kernels) if own else {}
        for row in own:
            found[row] = RowDigests(
                kernel=parts["kernel"],
                op=parts["op"],
                oracle=parts["oracle"],
                cases=parts["cases"],
                row=row_digest(row, parts, comparator),
            )
    return found


def _parts(sources: Sources, lane: str, kernels: Mapping[str, str]) -> dict[str, str]:
    closure = sources.closure([f"lanes.suite.{lane}"], _WITHIN) - _BOOKKEEPING
    if closure & _BY_NAME:
        folder = sources.root / "oracles"
        closure |= {path.relative_to(sources.root).as_posix() for path in folder.rglob("*.py")}
    ops = _OPS.get(lane)
    started = {k: v for k, v in kernels.items() if ops is None or k.partition(".")[0] in ops}
    by_part = {"op": (PACKAGE,), "oracle": ("oracles/",), "cases": ("lanes/", "fixtures/")}
    parts = {
        part: sources.digest(sorted(name for name in closure if name.startswith(within)))
        for part, within in by_part.items()
    }
    return {"kernel": sources.digest([], kernels=dict(sorted(started.items()))), **parts}
