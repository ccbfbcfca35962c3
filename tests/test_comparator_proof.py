"""The proof of the comparator, and that the proof can fail."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes import prove_comparator, trial
from lanes.catalogue import drawn
from lanes.comparator import Verdict
from lanes.prove_comparator import (
    CONTROLS,
    MOST_EXCLUDED,
    Shares,
    prove,
    shortfalls,
    table,
)
from lanes.reorderings import reordered
from lanes.tolerances import read
from lanes.trial import device, execute
from retrograd.rows import Row, declared_rows

Output = NDArray[np.floating]
Float = NDArray[np.float64]
Judge = Callable[[Output, Float], Verdict]
ROWS = declared_rows()
ORDERS = {"fast": 2, "full": 12}
NORM = next(row for row in ROWS if row.id == "rms_norm.forward.f32.cpu")
MATMUL = next(row for row in ROWS if row.id == "matmul.forward.q4_1-f32.cpu")


def _lacking(row: Row) -> list[str]:
    """What the proof lacks of one row; the corpora take turns with its place in the list."""
    found = prove("fast", [row] * 5, read(), orders=2)
    return shortfalls(found, 0)


def test_faults_are_seen_and_controls_pass(plan: str) -> None:
    """All declared rows: a sample in the plan `fast`, every case and corpus in `full`."""
    found = prove(plan, ROWS, read(), orders=ORDERS[plan])
    sys.stdout.write(table(found) + "\n")
    assert set(found) == {row.id for row in ROWS}
    assert shortfalls(found, CONTROLS[plan]) == []


def _patched(
    monkeypatch: pytest.MonkeyPatch, judge: Callable[[Output, Float, Judge], Verdict]
) -> None:
    """Another comparator in the place of the project's, which it is given."""
    own = trial.within

    def other(got: Output, want: Float, *, bound: float, magnitude: Float | None) -> Verdict:
        return judge(got, want, lambda g, w, m=magnitude: own(g, w, bound=bound, magnitude=m))

    monkeypatch.setattr(trial, "within", other)


GOOD = Verdict(holds=True, reason="", n=1, worst=0.0)


def test_the_sample_holds_for_the_rows_that_are_broken_below() -> None:
    assert _lacking(NORM) == []
    assert _lacking(MATMUL) == []


def test_a_comparator_that_drops_what_is_not_finite_fails_the_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _patched(
        monkeypatch,
        lambda got, want, own: own(np.where(np.isfinite(got), got, want).astype(got.dtype), want),
    )
    assert any("infinity on one side" in text for text in _lacking(MATMUL))


def test_a_comparator_that_stops_at_an_equal_infinity_fails_the_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _patched(
        monkeypatch,
        lambda got, want, own: GOOD if (np.isinf(got) & (got == want)).any() else own(got, want),
    )
    assert any("beside an equal infinity seen in" in text for text in _lacking(MATMUL))


def test_a_comparator_by_the_norm_fails_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """One percent of the norm hides single elements."""

    def by_norm(got: Output, want: Float, _own: Judge) -> Verdict:
        known = np.isfinite(got) & np.isfinite(want)
        gap = float(np.linalg.norm(got[known] - want[known]))
        return replace(GOOD, holds=gap <= 0.05 * float(np.linalg.norm(want[known])))

    _patched(monkeypatch, by_norm)
    lacking = _lacking(MATMUL)
    assert any("zeroed" in text for text in lacking)
    assert any("all x 1.02" in text for text in lacking)


def test_bounds_above_the_signal_fail_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgiven in secret, faults go unseen; forgiven openly, too much lies below the floor."""
    monkeypatch.setattr(trial, "allowed_steps", lambda *_: 2.0**22)
    assert any("x 1.5 seen" in text for text in _lacking(MATMUL))
    monkeypatch.setattr(prove_comparator, "allowed_steps", lambda *_: 2.0**22)
    assert any("at or below the floor" in text for text in _lacking(MATMUL))


def test_bounds_below_the_rounding_raise_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "allowed_steps", lambda *_: 0.5)
    assert any("false alarms" in text for text in _lacking(MATMUL))


def test_too_few_controls_are_no_proof() -> None:
    found = prove("fast", [NORM], read(), orders=2)
    assert any("controls, needed are" in text for text in shortfalls(found, 10**6))
    assert any("nothing was injected" in text for text in shortfalls({"a.b.f32.cpu": Shares()}, 0))
    assert MOST_EXCLUDED == 0.01


@pytest.mark.parametrize("row", [r for r in ROWS if r.contract == "bounded"], ids=lambda r: r.id)
def test_another_order_is_no_copy(row: Row) -> None:
    """Some element of some output has other bits, and every output its own shape."""
    rng, differing, on = np.random.default_rng(0), 0, device(1, None)
    for case in drawn(row, 0, fast=False, corpus="gaussian"):
        other = reordered(row, case, rng)
        if other is None:
            continue
        want = execute(on, row, case, alias={}).outputs
        got = other.back(execute(on, other.row, other.case, alias={}).outputs)
        assert {n: a.shape for n, a in got.items()} == {n: a.shape for n, a in want.items()}
        differing += sum(not np.array_equal(got[n], want[n]) for n in want)
        if differing:
            return
    assert differing


def test_pinned_rows_have_no_other_order() -> None:
    for row in ROWS:
        if row.contract == "pinned":
            case = next(drawn(row, 0, fast=True))
            assert reordered(row, case, np.random.default_rng(0)) is None
