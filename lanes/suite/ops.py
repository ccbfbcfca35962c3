"""Lane `ops`.

Every declared kernel row against its oracle, its replay, itself and its planted faults.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from lanes.case import Case, f32
from lanes.catalogue import PLANS, cases, corpora
from lanes.comparator import bitwise_equal
from lanes.corpora import CORPORA
from lanes.observation import Grade, Observe, Tally
from lanes.registry import Need, Planned, lane
from lanes.tolerances import bound_of, read
from lanes.trial import device, execute, variants
from lanes.trial import observe as observe_case
from retrograd.backends import Device, open_device
from retrograd.rows import Row, declared_rows

ROWS = declared_rows()
BY_ID = {row.id: row for row in ROWS}
_FAULT = "fault "


def corpora_of_rows(plan: str) -> Iterator[Planned]:
    """Every declared row in each of its corpora."""
    return (
        Planned(row.id, corpus, inputs=count)
        for row in ROWS
        for corpus, count in corpora(row, plan).items()
    )


def planted_faults(_plan: str) -> Iterator[Planned]:
    """Every planted fault of every row."""
    return (Planned(row.id, f"{_FAULT}{fault}") for row in ROWS for fault in row.faults)


@lane("ops", rows=corpora_of_rows, needs=(Need.DEVICE, Need.BOUNDS))
def test_row_holds(row: str, case: str, plan: str, observe: Observe) -> None:
    """Oracle, lattice, written answers, replay, thread counts, variants, aliasing, canaries."""
    declared, bound = BY_ID[row], bound_of(row, read())
    tally, failures, exact = Tally(), list[str](), True
    before = device(1, variants()[-1]).stream.counters()["launches"]
    for one in cases(declared, plan, case):
        seen = observe_case(declared, one, bound=bound)
        tally.add(seen.gaps)
        failures += [str(failure) for failure in seen.failures]
        exact &= set(one.exact) >= {n for n, (shape, _) in one.outputs.items() if 0 not in shape}
    launches = device(1, variants()[-1]).stream.counters()["launches"] - before
    observe(
        tally,
        grade=_grade(declared, exact=exact),
        bound=bound,
        seeds=PLANS[plan] if case in CORPORA else (),
        counters={"launches": launches},
    )
    assert not failures, "\n".join(failures[:20])


def _grade(row: Row, *, exact: bool) -> Grade:
    if row.contract == "pinned":
        return "pinned"
    return "lattice" if exact else "bounded"


@lane("ops", rows=planted_faults, needs=(Need.FAULTS, Need.BOUNDS))
def test_planted_fault_is_caught(row: str, case: str, observe: Observe) -> None:
    """The fast plan's cases fail with the fault on, name the row, and hold with it off."""
    declared, fault, bound = BY_ID[row], case.removeprefix(_FAULT), bound_of(row, read())
    faulty = open_device("cpu", threads=1, faults=True)
    for one in cases(declared, "fast"):
        faulty.set_fault(f"{row}:{fault}")
        failures = observe_case(declared, one, bound=bound, on=faulty).failures
        if failures:
            faulty.set_fault(None)
            observe.equal(sum(int(np.prod(shape)) for shape, _ in one.outputs.values()))
            assert failures[0].row_id == row
            assert row in str(failures[0])
            assert not observe_case(declared, one, bound=bound, on=faulty).failures
            return
    pytest.fail(f"{row}: no case of the fast plan sees the planted fault '{fault}'")


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
