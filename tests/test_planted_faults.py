"""The lanes themselves: what they lack must fail, and what they judge must be able to fail."""

from dataclasses import replace

import numpy as np
import pytest

from lanes import ceilings, trial
from lanes.case import Case, f32
from lanes.catalogue import NoCasesError, cases, drawn
from lanes.tolerances import NoBoundError, bound_of, read
from lanes.trial import aliases, execute, observe
from lanes.whole import subjects
from retrograd.backends import Device, open_device
from retrograd.errors import DeviceError
from retrograd.rows import Row, declared_rows

ADD = next(row for row in declared_rows() if row.id == "add.forward.f32.cpu")


def _case(n: int = 5) -> Case:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, n), dtype=np.float32)
    return Case("pair", "gaussian", {"a": a, "b": b}, {"y": f32(n)}, {"n": n})


def test_a_row_without_cases_fails() -> None:
    with pytest.raises(NoCasesError, match="unknown_op"):
        list(cases(replace(ADD, op="unknown_op"), "fast"))
    with pytest.raises(NoCasesError, match=r"add\.sideways"):
        list(cases(replace(ADD, direction="sideways"), "fast"))


def test_a_row_without_an_oracle_fails() -> None:
    with pytest.raises(AttributeError):
        trial.oracle_of(replace(ADD, direction="sideways"))
    with pytest.raises(ModuleNotFoundError):
        trial.oracle_of(replace(ADD, op="unknown_op"))


def test_a_row_without_a_bound_or_a_ceiling_fails() -> None:
    with pytest.raises(NoBoundError, match=r"unknown\.row"):
        bound_of("unknown.row", read())
    with pytest.raises(KeyError):
        ceilings.ceiling("add", "sideways", {})


def test_unknown_plan_fails() -> None:
    with pytest.raises(KeyError):
        list(cases(ADD, "everything"))


def test_every_row_has_all_it_needs() -> None:
    table = read()
    for row in declared_rows():
        assert trial.oracle_of(row)
        assert bound_of(row.id, table) >= 0
        assert next(drawn(row, 0, fast=True))
        assert row.faults


def test_recorded_subjects_are_declared() -> None:
    """A bound without a row would be read by nobody."""
    ids = {row.id for row in declared_rows()}
    ids |= set(subjects())
    assert [n for n in read() if n not in ids and not n.startswith("interop.")] == []


def test_faults_exist_in_test_builds_only() -> None:
    with pytest.raises(DeviceError):
        open_device("cpu", threads=1).set_fault(f"{ADD.id}:skip_last_element")
    assert open_device("cpu", threads=1, faults=True).probe()["has_faults"] is True


def test_a_fault_concerns_its_own_row_alone() -> None:
    on = open_device("cpu", threads=1, faults=True)
    on.set_fault("fill.forward.f32.cpu:skip_last_element")
    assert observe(ADD, _case(), bound=0.5, on=on).failures == []
    on.set_fault("add.forward.f32.cpu:no_such_fault")
    assert observe(ADD, _case(), bound=0.5, on=on).failures == []
    on.set_fault("add.forward.f32.cpu:skip_last_element")
    failures = observe(ADD, _case(), bound=0.5, on=on).failures
    assert any("were not written" in f.reason for f in failures)
    assert {f.row_id for f in failures} == {ADD.id}


@pytest.mark.parametrize("broken", ["stray", "input", "late", "one_ulp"])
def test_a_wrong_launch_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that writes behind its output or into an input, or misses an element or an ulp."""

    def launch(_device: Device, _row: str, **fields: object) -> None:
        a, b, y = (fields[n] for n in ("a", "b", "y"))
        assert isinstance(a, np.ndarray)
        assert isinstance(b, np.ndarray)
        assert isinstance(y, np.ndarray)
        y[: len(y) - (broken == "late")] = (a + b)[: len(y) - (broken == "late")]
        if broken == "stray":
            np.lib.stride_tricks.as_strided(y, (len(y) + 1,))[-1] = 0
        if broken == "input":
            a[0] = 7
        if broken == "one_ulp":
            y[1] = np.nextafter(y[1], np.float32(np.inf))

    monkeypatch.setattr(trial, "launch", launch)
    on = open_device("cpu", threads=1)
    failures = observe(ADD, _case(), bound=0.5, on=on).failures
    word = {
        "stray": "behind",
        "input": "input was written",
        "late": "not written",
        "one_ulp": "replay",
    }[broken]
    assert any(word in f.reason for f in failures), failures


def test_bits_that_depend_on_threads_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(on: Device, _row: str, **fields: object) -> None:
        a, b, y = (fields[n] for n in ("a", "b", "y"))
        assert isinstance(y, np.ndarray)
        y[...] = a + b  # type: ignore[operator]
        if on.threads == 4:
            y[0] = np.nextafter(y[0], np.float32(9))

    monkeypatch.setattr(trial, "launch", launch)
    reasons = [f.reason for f in observe(ADD, _case(), bound=0.5).failures]
    assert len(reasons) == len(trial.variants())
    assert all("between 1 and 4 threads" in reason for reason in reasons)


def test_aliasing_runs_where_the_signature_allows_it() -> None:
    assert list(aliases(ADD, _case())) == [{"y": "a"}]
    plain = execute(trial.device(1, None), ADD, _case(), alias={})
    aliased = execute(trial.device(1, None), ADD, _case(), alias={"y": "a"})
    assert (plain.strays, aliased.strays) == ((), ())
    assert plain.outputs["y"].tobytes() == aliased.outputs["y"].tobytes()


def test_accumulators_are_tried_over_their_own_addend() -> None:
    rows: list[Row] = [row for row in declared_rows() if row.direction == "backward_weight"]
    assert rows
    for row in rows:
        tried = [alias for case in drawn(row, 0, fast=True) for alias in aliases(row, case)]
        assert tried, row.id


def test_every_in_place_signature_is_tried() -> None:
    from retrograd.ops import OPS

    for row in declared_rows():
        if row.op in OPS and OPS[row.op].kernels[row.direction].in_place:
            assert any(list(aliases(row, case)) for case in drawn(row, 0, fast=True)), row.id


def test_exact_cases_exist_for_bounded_sums() -> None:
    """Lattice equality is asserted, not only offered.

    Each of these rows has cases that must be met bit by bit.
    """
    for row in declared_rows():
        if (
            row.contract == "bounded" and row.op in {"matmul", "rms_norm"}
        ) or row.id == "attention.forward.f32.cpu":
            assert any(case.exact for case in drawn(row, 0, fast=True)), row.id


def test_pinned_rows_have_replays() -> None:
    """Equal bits need a written order.

    A pinned row without one would be judged by distance alone.
    """
    missing = [
        row.id
        for row in declared_rows()
        if row.contract == "pinned" and trial.replay_of(row) is None
    ]
    assert missing == []
