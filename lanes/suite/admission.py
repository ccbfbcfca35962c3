"""Lane `admission`.

Every declared row and cell is tried by starting the product: admitted if and only if verified or
transferred. The states are worked out again from the receipts by `lanes/independent_states.py`; the
product judges by the table it carries, without what this machine's user has measured. Every
refusal names its rule, what was asked for, and what to do.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lanes.digests import ROOT, current_digests, differing
from lanes.independent_states import Claim, Ledger
from lanes.lane_rows import lane_row_digests
from lanes.observation import Observe
from lanes.registry import Need, Planned, lane
from lanes.starting import Started, smallest_case, start_cell, start_row
from lanes.synthetic import SITUATIONS, refusal_of
from lanes.trial import device
from retrograd.admission import admit, judged_by
from retrograd.errors import AdmissionError, RetrogradError
from retrograd.ops import OPS
from retrograd.rows import Row, declared_rows
from retrograd.table import packaged

ROWS, CELLS, STATES = "admission.kernel-rows", "admission.cells", "admission.states"
ADMITTED = frozenset({"verified", "transferred"})

pytestmark = pytest.mark.strict_admission


@cache
def ledger() -> Ledger:
    """The states of this checkout, for the library at hand."""
    kernels = current_digests()
    digests = {row: d["row"] for row, d in {**kernels, **lane_row_digests()}.items()}
    return Ledger(ROOT, digests, frozenset(differing(device(1, None).digests, kernels)))


@cache
def declared_cells() -> dict[str, Claim]:
    """Every declared cell by id."""
    return {claim.id: claim for claim in Ledger(ROOT, {}).claims}


def _rows(plan: str) -> Iterator[Planned]:
    del plan  # every row in every plan
    yield from (Planned(ROWS, row.id) for row in declared_rows())


def _cells(plan: str) -> Iterator[Planned]:
    del plan
    for claim in declared_cells().values():
        if claim.refuse:
            yield Planned(f"admission.{claim.id}", claim.id, claim.refuse)
        else:
            yield Planned(CELLS, claim.id)


def _situations(plan: str) -> Iterator[Planned]:
    del plan
    yield from (Planned(STATES, name) for name in SITUATIONS)


@lane("admission", rows=_rows, needs=[Need.DEVICE])
def test_kernel_row(row: str, case: str, observe: Observe) -> None:
    """A program of one node compiles, or is refused before anything is allocated."""
    del row
    asked = next(known for known in declared_rows() if known.id == case)
    on = device(1, None)
    state = ledger().row(case, on.env_class, asked.backend)
    with judged_by(packaged()):
        started = _start(asked)
    observe.equal(1, int((started.refusal is None) != (state in ADMITTED)))
    if state in ADMITTED:
        assert started.refusal is None, f"{state}, and refused: {started.refusal}"
        return
    assert started.refusal is not None, f"{state}, and admitted"
    assert started.allocations == 0
    assert isinstance(started.refusal, AdmissionError)
    _assert_told(started.refusal, case, state)


def _start(row: Row) -> Started:
    on = device(1, None)
    if row.op in OPS and row.backend == on.name:
        return start_row(row, smallest_case(row), on)
    # A function that has a kernel and no op, or a backend that is not at hand, has no program.
    try:
        admit(row.id, device=on)
    except RetrogradError as error:
        return Started(error, {row.id: error})
    return Started(None, {})


@lane("admission", rows=_cells, needs=[Need.DEVICE])
def test_cell(row: str, case: str, observe: Observe, tmp_path: Path) -> None:
    """The smallest run that needs the cell starts, or what it refuses includes the cell."""
    del row
    on = device(1, None)
    claim = declared_cells()[case]
    state = ledger().cell(claim, on.env_class)
    wanted = state in ADMITTED and claim.backend == on.name
    with judged_by(packaged()):
        started = _start_cell(claim, tmp_path)
    assert (started.refusal is None) == (not started.refused)
    if claim.refuse:
        observe.refused(_reason(started, claim))
        return
    refused = case in started.refused
    observe.equal(1, int(refused == wanted))
    assert refused != wanted, f"{state}: {started.refusal}"
    if refused:
        told = started.refused[case]
        # How kernels execute has no cell of its own in a message: it names the row.
        judged = isinstance(told, AdmissionError) and not case.startswith("execution.")
        _assert_told(told, case if judged else "", state if judged else "")


def _start_cell(claim: Claim, folder: Path) -> Started:
    needs = ledger().needed(claim)
    if not (claim.id.startswith("execution.") and needs):
        return start_cell(claim.id, claim.facts, folder)
    # How kernels execute is no option of a run: the cell is the rows it names.
    rows = [known for known in declared_rows() if known.id in needs]
    refused = {r.id: s.refusal for r in rows if (s := _start(r)).refusal is not None}
    first = next(iter(refused.values()), None)
    return Started(first, {claim.id: first} if first else {})


def _reason(started: Started, claim: Claim) -> str:
    """The declared reason, where the product's message for the cell gives it."""
    told = started.refused.get(claim.id)
    assert told is not None, f"{claim.id}: declared as refused, and admitted"
    assert claim.refuse in str(told.got), f"{claim.id}: the message leaves out the reason: {told}"
    return claim.refuse


@lane("admission", rows=_situations, needs=[Need.DEVICE, Need.FAULTS])
def test_state(row: str, case: str, observe: Observe, tmp_path: Path) -> None:
    """Each state of a row and of a cell, each answer of the device, each kind of local evidence."""
    del row
    situation = SITUATIONS[case]
    told = refusal_of(situation, tmp_path)
    observe.equal(1, int((told is None) != situation.admitted))
    if situation.admitted:
        assert told is None, str(told)
        return
    assert told is not None
    _assert_told(told, "", situation.words)
    assert told.where == situation.by
    if situation.by == "admission":
        assert "use one of" in told.remedy or "none of" in told.remedy


def _assert_told(error: RetrogradError, name: str, words: str) -> None:
    """The message has its four parts, names what was asked for and says what is known of it."""
    assert error.exit_code == 2
    assert all((error.where, error.rule, str(error.got), error.remedy))
    assert str(error).startswith(f"[{error.where}] {error.rule}; got ")
    assert words in str(error)
    if isinstance(error, AdmissionError):
        assert name in str(error.got)


def test_nothing_is_left_out() -> None:
    """The three kinds of cases are there, and cells of every topic."""
    assert {case.case for case in _rows("fast")} == set(ledger().kernel_rows)
    topics = {cell.partition(".")[0] for cell in declared_cells()}
    assert topics >= {"training", "optimizers", "base_dtype", "frozen-bases", "families"}
    assert len(SITUATIONS) >= 12
