"""Lane `ops`.

Every declared kernel row against its oracle, its replay, itself and its planted faults.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from lanes.case import Case, f32
from lanes.catalogue import cases
from lanes.comparator import bitwise_equal
from lanes.tolerances import bound_of, read
from lanes.trial import device, execute, observe, variants
from retrograd.backends import Device, open_device
from retrograd.rows import Row, declared_rows

ROWS = declared_rows()
FAULTS = [(row, fault) for row in ROWS for fault in row.faults]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row_holds(row: Row, plan: str) -> None:
    """Oracle, lattice, written answers, replay, thread counts, variants, aliasing, canaries."""
    bound = bound_of(row.id, read())
    failures = [f for case in cases(row, plan) for f in observe(row, case, bound=bound).failures]
    assert not failures, "\n".join(str(f) for f in failures[:20])


@pytest.mark.parametrize(
    ("row", "fault"), FAULTS, ids=lambda part: part if isinstance(part, str) else part.id
)
def test_planted_fault_is_caught(row: Row, fault: str) -> None:
    """The fast plan's cases fail with the fault on, name the row, and hold with it off."""
    bound = bound_of(row.id, read())
    faulty = open_device("cpu", threads=1, faults=True)
    for case in cases(row, "fast"):
        faulty.set_fault(f"{row.id}:{fault}")
        failures = observe(row, case, bound=bound, on=faulty).failures
        if failures:
            assert failures[0].row_id == row.id
            assert row.id in str(failures[0])
            faulty.set_fault(None)
            assert not observe(row, case, bound=bound, on=faulty).failures
            return
    pytest.fail(f"{row.id}: no case of the fast plan sees the planted fault '{fault}'")


def test_every_row_plants_a_fault() -> None:
    """A check that cannot fail proves nothing."""
    assert ROWS
    assert [row.id for row in ROWS if not row.faults] == []


def test_library_holds_exactly_the_declared_rows() -> None:
    """A row without a kernel, or a kernel without a row, is a failure."""
    assert set(device(1, None).layouts) == {row.id for row in ROWS if row.backend == "cpu"}


def _every_setting() -> Iterator[Device]:
    for isa in variants():
        for threads in (1, 2, 4):
            yield device(threads, isa)


def test_masked_query_leaves_its_neighbour_alone() -> None:
    """K4.

    The second query's output is bit for bit what it is without the fully masked first one.
    """
    row = next(row for row in ROWS if row.id == "attention.forward.f32.cpu")
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((2, 4), dtype=np.float32) for _ in range(3))
    settings = {"heads": 2, "kv_heads": 2, "head_size": 2, "scale": 0.5}

    def run(on: Device, first: int) -> np.ndarray:
        begin, end = np.zeros(2 - first, np.int32), np.array([0, 2], np.int32)[first:]
        inputs = {"q": q[first:], "k": k, "v": v, "key_begin": begin, "key_end": end}
        outputs = {"o": f32(2 - first, 4), "L": f32(2 - first, 2)}
        case = Case("K4", "regression", inputs, outputs, {"T": 2 - first, "S": 2}, settings)
        return execute(on, row, case, alias={}).outputs["o"][-1]

    for on in _every_setting():
        verdict = bitwise_equal(run(on, 0), run(on, 1))
        assert verdict.holds, verdict.reason


@pytest.mark.parametrize("contract", ["pinned", "bounded"])
def test_contract_is_one_of_two_words(contract: str) -> None:
    """Every row is one or the other, and both exist."""
    assert {row.contract for row in ROWS} == {"pinned", "bounded"}
    assert any(row.contract == contract for row in ROWS)
