"""The independent script against the reduction, on the real declarations and made-up receipts."""

import random
from pathlib import Path

import pytest

from lanes.independent_states import Ledger
from matrix.findings import Current
from matrix.reduce import reduce
from matrix.topics import read_declarations
from retrograd.table import parse
from tests.house import ROOT
from tests.made_receipts import COMPARATOR, Made, parts_of, receipt, row_digest

CLASSES = ("cpu-avx2", "cpu-portable")
DECLARED = ("matrix", "lanes/tolerances.toml", "src/retrograd")
PLANS = "lanes/plans"
SEEDS = 6


def checkout(folder: Path, *, planned: bool) -> Path:
    """The declarations of this checkout, and room for receipts."""
    for name in (*DECLARED, *([PLANS] if planned else [])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_give_every_row_and_cell_the_same_state(seed: int, tmp_path: Path) -> None:
    from matrix.files import dump

    draw = random.Random(seed)
    # Made-up receipts run made-up cases: with the committed plans, all of them are stale.
    declared = read_declarations(checkout(tmp_path, planned=seed == 0))
    promised = [(e, lane) for e in declared.environments for lane in e.lanes]
    # The first seeds leave receipts out or spoil rows; the last one has everything.
    share = 0.0 if seed == SEEDS - 1 else 0.15
    given: dict[str, bytes] = {}
    for environment, lane in promised:
        rows = sorted(declared.coverage.get(lane, ()))
        if not rows or draw.random() < share:
            continue
        made = Made(
            lane=lane,
            env_class=environment.env_class,
            toolchain=environment.toolchain,
            rows=rows,
            refusing={r: declared.refusals[r] for r in rows if r in declared.refusals},
            failing=[r for r in rows if draw.random() < share / 20],
            edited=[r for r in rows if draw.random() < share / 20],
            worst=0.0,
            bound=1.0 if lane == "ops" else None,
            dirty=draw.random() < share,
        )
        given[made.path] = receipt(made)
        path = tmp_path / "reports" / "receipts" / made.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(given[made.path])
    known = sorted(set[str]().union(*declared.coverage.values()))
    parts = {row: parts_of(row) for row in known}
    digests = {row: row_digest(row, parts[row], COMPARATOR) for row in known}
    now = Current(digests, parts)
    table = parse(dump(reduce(declared, given, now, is_ancestor=lambda _: True).table).encode())
    ledger = Ledger(tmp_path, digests)

    assert {claim.id for claim in ledger.claims} == set(table.cells)
    assert {claim.id: ledger.needed(claim) for claim in ledger.claims} == {
        cell.id: set(cell.needs) for cell in table.cells.values()
    }
    states: set[str] = set()
    for env_class in CLASSES:
        found = {row: entry.findings[env_class].state for row, entry in table.rows.items()}
        wanted = {row: ledger.row(row, env_class, "cpu") for row in table.rows}
        assert wanted == found
        states |= set(found.values())
    if seed == SEEDS - 1:
        assert states == {"verified"}
    elif seed:
        assert "verified" in states
        assert states & {"failed", "stale", "not measured"}
    else:
        assert "stale" in states
