"""Thirteen ways in which a verifier was falsely green or red, each tried on this one.

The numbers follow the project's list of verifier failures.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes import measure, registry, tolerances, trial
from lanes.__main__ import main as lanes_main
from lanes.case import Case
from lanes.cases import captured, regressions
from lanes.catalogue import CORPORA, MEASURE_SEEDS, drawn
from lanes.comparator import bitwise_equal, distances, within
from lanes.registry import Planned
from lanes.tolerances import Tolerance, bound_of, lawful_bound, merged
from lanes.trial import execute, observe
from lanes.verdict import FALSIFIED, NOT_VERIFIED, VERIFIED, judge
from oracles.ops import swiglu
from retrograd.backends import Device, open_device
from retrograd.rows import Row, declared_rows

ROOT = Path(__file__).resolve().parent.parent
INF, NAN = np.inf, np.nan
PLANNED = (Planned("a.row", "lattice", inputs=1), Planned("b.row", "lattice", inputs=1))


def _row(row_id: str) -> Row:
    return next(row for row in declared_rows() if row.id == row_id)


def _ended(row: str, kind: str, *, elements: int = 5, reason: str = "") -> dict[str, Any]:
    """How the plugin records one test."""
    seen = {
        "elements": elements,
        "errors": None,
        "bound": 1.0,
        "grade": "bounded",
        "seeds": [0],
        "counters": {"inputs": 1},
        "reason": "",
    }
    return {
        "test": f"test_row[{row}]",
        "lane": "ops",
        "row": row,
        "case": "lattice",
        "kind": kind,
        "reason": reason,
        "duration_s": 0.1,
        "observed": [seen] if kind == "passed" else [],
    }


def _judged(*ended: dict[str, Any]) -> int:
    return judge("ops", PLANNED, {"ended": list(ended), "broken": []}).code


def _run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    # The package is the one that this process tests: a wheel, or the checkout's through the path.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.mark.exhaustive
def test_1_nothing_selected_is_not_verified(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No row, no lane, no device, no test, no element: never exit 0."""
    assert _judged(_ended("a.row", "passed"), _ended("b.row", "passed")) == VERIFIED
    assert _judged() == NOT_VERIFIED
    assert _judged(_ended("a.row", "passed")) == NOT_VERIFIED
    assert _judged(_ended("a.row", "passed"), _ended("b.row", "passed", elements=0)) == NOT_VERIFIED
    for words in (["ops", "--rows", "no.such.*"], ["no_lane"], ["ops", "--device", "no_device"]):
        assert lanes_main(["run", *words]) == NOT_VERIFIED
    assert "no.such.*" in capsys.readouterr().err
    done = _run("-m", "lanes", "run", "rope_tables", "--", "-k", "no_such_test")
    assert done.returncode == NOT_VERIFIED
    monkeypatch.setattr(sys, "argv", ["measure", "--only", "no.such.row"])
    assert measure.main() == 2
    empty = np.zeros((0, 3), np.float32)
    assert not within(empty, empty.astype(np.float64), bound=1.0, magnitude=None).holds
    assert not bitwise_equal(empty, empty).holds


@pytest.mark.exhaustive
def test_2_a_skip_hides_nothing(tmp_path: Path) -> None:
    """A lane with skipped cases is not verified, one with a red case beside them is falsified."""
    skipped = _ended("b.row", "skipped", reason="later")
    assert _judged(_ended("a.row", "passed"), skipped) == NOT_VERIFIED
    assert _judged(_ended("a.row", "skipped"), skipped) == NOT_VERIFIED
    assert _judged(_ended("a.row", "failed", reason="red"), skipped) == FALSIFIED
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "test_lane.py").write_text(
        "import pytest\n\n"
        "def test_one():\n    pytest.skip('later')\n\n"
        "@pytest.mark.skipif(True, reason='later')\ndef test_two():\n    pass\n\n"
        "@pytest.mark.parametrize('row', [])\ndef test_three(row):\n    pass\n\n"
        "def test_four():\n    pass\n"
    )
    done = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lane.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "nothing skips" in done.stdout


def test_3_nan_in_the_oracle_is_no_wildcard() -> None:
    got, want = np.ones(3, np.float32), np.array([1.0, NAN, 1.0])
    assert not within(got, want, bound=1e30, magnitude=None).holds
    assert not within(got, want, bound=1e30, magnitude=np.full(3, INF)).holds
    assert not bitwise_equal(got, want.astype(np.float32)).holds


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_4_non_finite_results_are_compared(bad: float) -> None:
    """Not filtered, not clipped, and not hidden behind an equal one of the same class."""
    got = np.array([1.0, bad], np.float32)
    assert not within(got, np.ones(2), bound=1e30, magnitude=None).holds
    beside = np.array([bad, bad], np.float32)
    assert not within(beside, np.array([bad, 1.0]), bound=1e30, magnitude=None).holds


def test_5_no_bound_reaches_the_signal() -> None:
    """Two percent on every element is hundreds of times any recorded bound of a row."""
    for name, entry in tolerances.read().items():
        assert entry.bound <= entry.ceiling, name
        if not name.startswith("interop."):
            assert entry.bound * 2.0**-23 < 0.02 / 100, name


def test_6_one_element_in_a_million_is_seen() -> None:
    """Though the correlation of the two is 1 in float64 and their norms agree to 11 digits."""
    want = np.random.default_rng(0).standard_normal(1_000_000) + 3
    got = want.astype(np.float32)
    got[777_777] *= np.float32(1.0001)
    wide = got.astype(np.float64)
    assert abs(np.linalg.norm(wide) / np.linalg.norm(want) - 1) < 1e-9
    assert "(777777,)" in within(got, want, bound=1.0, magnitude=None).reason


def test_7_a_fault_that_the_oracle_shares_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right answers that were written by hand, and replays, stand beside the oracle.

    The oracle is put in the place of the broken kernel: it says whatever that one does.
    """
    for row_id, fault, case in (
        ("attention.backward.f32.cpu", "wrong_group", "K6-group-order"),
        ("swiglu.forward.f32.cpu", "other_association", None),
    ):
        row, faulty = _row(row_id), open_device("cpu", threads=1, faults=True)
        faulty.set_fault(f"{row_id}:{fault}")
        if case is None:
            chosen = captured.cases(row)[0]
        else:
            chosen = next(c for c in regressions.cases(row) if c.name == case)
        wrong = execute(faulty, row, chosen, alias={}).outputs
        monkeypatch.setattr(trial, "oracle_of", lambda _row, wrong=wrong: _saying(wrong))
        reasons = [f.reason for f in observe(row, chosen, bound=1e6, on=faulty).failures]
        assert reasons, row_id
        assert all("written answer" in text or "replay" in text for text in reasons), reasons


def _saying(found: Any) -> Any:
    def oracle() -> dict[str, NDArray[np.float64]]:
        return {name: array.astype(np.float64) for name, array in found.items()}

    return oracle


def test_8_the_oracle_is_wider_than_what_it_judges() -> None:
    """It is not rounded before the comparison: half a step off is half a step, not zero.

    And it keeps its digits where the usual formula loses them: 1 - s(g) of a float64 logistic
    function is 0 from g = 37 on, the slope of SiLU there 1 - (1 - g) e^-g.
    """
    one = np.ones(1, np.float32)
    assert distances(one, np.array([1.0 + 2.0**-24]), magnitude=None)[0] == 0.5
    g = np.array([-40.0])
    got = swiglu.backward(dy=np.ones(1), g=g, u=np.ones(1))["dg"][0]
    assert abs(got / ((1 - 40.0) * np.exp(-40.0)) - 1) < 1e-14
    files = (ROOT / "oracles" / "ops").glob("*.py")
    assert not [p.name for p in files if "float32" in p.read_text().replace("float32 ", "")]


def test_9_the_recorded_bound_is_read() -> None:
    """The same results fail under a smaller bound, and the lane asks the file for its bound."""
    row = _row("rms_norm.forward.f32.cpu")
    case = next(c for c in drawn(row, 0, fast=True) if c.corpus == "gaussian")
    assert observe(row, case, bound=bound_of(row.id, tolerances.read())).failures == []
    failures = observe(row, case, bound=0.25).failures
    assert failures
    assert failures[0].row_id == row.id


def test_9_the_lane_fails_under_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound that is changed in ``tolerances.toml`` changes the verdict of the lane's test."""
    from lanes.observation import Observe
    from lanes.suite import ops

    table = tolerances.read()
    name = "rms_norm.forward.f32.cpu"
    ops.test_row_holds(name, "gaussian", "fast", Observe())
    table[name] = replace(table[name], bound=0.25)
    monkeypatch.setattr(ops, "read", lambda: table)
    seen = Observe()
    with pytest.raises(AssertionError, match=r"beyond 0\.25 steps"):
        ops.test_row_holds(name, "gaussian", "fast", seen)
    assert seen.observed[0].bound == 0.25
    del tmp_path


def test_10_one_seed_sets_no_bound() -> None:
    assert len(MEASURE_SEEDS) >= 8
    assert all(entry.seeds >= 8 for entry in tolerances.read().values())
    old = Tolerance(1000, 8, ("cpu-avx2",), worst=3.0, p999=1.0, ceiling=50.0, bound=10.0)
    lucky = replace(old, seeds=1, worst=0.5, bound=1.0)
    assert merged(old, lucky, "row") == old
    assert merged(old, replace(lucky, seeds=8, samples=10), "row") == old
    assert merged(old, replace(lucky, seeds=8), "row").bound == 1.0


def _caught_in(fault: str) -> set[str]:
    row = _row(fault.split(":")[0])
    on: Device = open_device("cpu", threads=1, faults=True)
    on.set_fault(fault)
    every: list[Case] = [*drawn(row, 0, fast=False), *captured.cases(row)]
    return {c.corpus for c in every if observe(row, c, bound=None, on=on).failures}


def test_11_noise_alone_would_miss_faults() -> None:
    """These planted faults pass on the corpora named beside them; the ladder sees both."""
    assert {"lattice", "ladder", "structured", "gaussian"} == set(CORPORA)
    for fault, unseen in (
        ("log.forward.f32.cpu:subnormal_as_zero", {"gaussian", "lattice", "captured"}),
        ("exp.forward.f32.cpu:flush_subnormal", {"lattice", "captured"}),
    ):
        seen = _caught_in(fault)
        assert "ladder" in seen
        assert not seen & unseen, fault


def test_12_a_correctly_rounded_result_always_holds() -> None:
    """Half a step is enough at every size, from the smallest subnormal to the largest number."""
    want = np.ldexp(np.random.default_rng(0).uniform(1, 2, 300), np.arange(-150, 150)).clip(
        0, 3.4028234e38
    )
    with np.errstate(under="ignore"):
        got = want.astype(np.float32)
    assert within(got, want, bound=0.5, magnitude=None).holds
    # No bound of a row that rounds at all lies below what one rounding takes.
    for name, entry in tolerances.read().items():
        assert entry.bound == 0 or entry.bound >= 0.5, name


def test_13_recorded_numbers_are_those_the_command_wrote() -> None:
    """The file is its own canonical text, and every bound follows from its numbers."""
    table = tolerances.read()
    assert tolerances.PATH.read_text(encoding="utf-8") == tolerances.text(table)
    for name, entry in table.items():
        lawful = lawful_bound(max(entry.worst, entry.bound / 2), entry.ceiling)
        assert entry.worst <= entry.bound <= lawful, name
        assert entry.p999 <= entry.worst, name


def test_all_thirteen_are_here() -> None:
    numbers = {name.split("_")[1] for name in globals() if name.startswith("test_")}
    assert {str(number) for number in range(1, 14)} <= numbers
    assert "ops" in registry.lane_names()
