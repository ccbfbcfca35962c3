"""The comparator.

Its order of judgement, single faults in a perfect result, and thirteen ways a verifier can lie.

The numbers of the thirteen follow the project's list of verifier failures.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes import measure, tolerances
from lanes.catalogue import drawn
from lanes.comparator import bitwise_equal, distances, equal_values, within
from lanes.corpora import draw
from lanes.guards import holding, poisoned
from lanes.tolerances import RaisedError, Tolerance, lawful_bound, merged
from lanes.trial import observe
from retrograd.backends import open_device
from retrograd.rows import Row, declared_rows

Single = NDArray[np.float32]
ROOT = Path(__file__).resolve().parent.parent
INF, NAN = np.inf, np.nan


def _row(row_id: str) -> Row:
    return next(row for row in declared_rows() if row.id == row_id)


def _product(seed: int) -> tuple[Single, NDArray[np.float64], NDArray[np.float64]]:
    """A float32 product in another order, its oracle, and the size of its terms."""
    rng = np.random.default_rng(seed)
    a, b = (
        rng.standard_normal((24, 96)).astype(np.float32),
        rng.standard_normal((40, 96)).astype(np.float32),
    )
    got = np.zeros((24, 40), np.float32)
    for k in range(95, -1, -1):
        got += a[:, k : k + 1] * b[:, k]
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return got, wide_a @ wide_b.T, np.abs(wide_a) @ np.abs(wide_b).T


def _sign_flip(y: Single, i: int) -> None:
    y.reshape(-1)[i] *= -1


def _zeroed(y: Single, i: int) -> None:
    y.reshape(-1)[i] = 0


def _half_more(y: Single, i: int) -> None:
    y.reshape(-1)[i] *= np.float32(1.5)


def _infinity(y: Single, i: int) -> None:
    y.reshape(-1)[i] = np.inf


FAULTS: list[Callable[[Single, int], None]] = [_sign_flip, _zeroed, _half_more, _infinity]


@pytest.mark.parametrize("fault", FAULTS)
def test_single_fault_is_seen_in_every_element_above_the_floor(
    fault: Callable[[Single, int], None],
) -> None:
    """Every element in turn.

    What lies below the bound's reach is at most one in a hundred, and is counted.
    """
    bound, below, seen = 20.0, 0, 0
    for seed in range(4):
        got, want, magnitude = _product(seed)
        assert within(got, want, bound=bound, magnitude=magnitude).holds
        floor = 2 * bound * 2.0**-23 * magnitude
        for i in range(got.size):
            if abs(want.reshape(-1)[i]) <= floor.reshape(-1)[i]:
                below += 1
                continue
            broken = got.copy()
            fault(broken, i)
            assert not within(broken, want, bound=bound, magnitude=magnitude).holds
            seen += 1
    assert below <= 0.01 * seen


def test_uniform_two_percent_is_seen() -> None:
    for seed in range(20):
        got, want, magnitude = _product(seed)
        assert not within(got * np.float32(1.02), want, bound=20.0, magnitude=magnitude).holds


def test_equal_infinity_on_both_sides_hides_nothing() -> None:
    got, want, magnitude = _product(0)
    got[0, 0], want[0, 0] = np.inf, np.inf
    assert within(got, want, bound=20.0, magnitude=magnitude).holds
    got[5, 5] *= -1
    verdict = within(got, want, bound=20.0, magnitude=magnitude)
    assert not verdict.holds
    assert "(5, 5)" in verdict.reason


def test_shape_is_judged_first() -> None:
    y = np.zeros((2, 3), np.float32)
    for other in (np.zeros((3, 2)), np.zeros(6), np.zeros((1, 2, 3))):
        assert "shape" in within(y, other, bound=1e9, magnitude=None).reason
        assert "shape" in bitwise_equal(y, other.astype(np.float32)).reason


def test_dtype_is_part_of_bitwise_equality() -> None:
    assert not bitwise_equal(np.zeros(2, np.float32), np.zeros(2)).holds
    assert not bitwise_equal(np.zeros(2, np.int32), np.zeros(2, np.float32)).holds


def test_zeros_of_different_sign_differ_in_bits_only() -> None:
    plus, minus = np.zeros(3, np.float32), -np.zeros(3, np.float32)
    assert not bitwise_equal(plus, minus).holds
    assert equal_values(minus, plus.astype(np.float64)).holds
    assert within(minus, plus.astype(np.float64), bound=0.0, magnitude=None).holds


def test_payload_of_a_nan_is_free_and_nothing_else() -> None:
    a = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    b = np.array([0xFFC00001, 0x3F800000], np.uint32).view(np.float32)
    assert bitwise_equal(a, b).holds
    assert not bitwise_equal(a, np.array([1.0, 1.0], np.float32)).holds
    assert not bitwise_equal(np.array([1.0], np.float32), np.array([1.0000001], np.float32)).holds


@pytest.mark.parametrize(
    ("got", "want", "holds"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, NAN, False),
        (INF, INF, True),
        (-INF, INF, False),
        (3.4e38, INF, False),
        (INF, 3.5e38, True),  # beyond the range: an infinity is the rounded value
        (-INF, 3.5e38, False),
        (INF, 3.3e38, False),
        (3.4028235e38, 3.4028236e38, True),
        (0.0, 1e-50, True),
        (0.0, 1e-38, False),  # a normal number flushed
        (0.0, 2e-44, False),  # a subnormal of many units flushed
    ],
)
def test_bit_classes_under_a_bound(*, got: float, want: float, holds: bool) -> None:
    with np.errstate(over="ignore"):
        array = np.array([got], np.float32)
    assert within(array, np.array([want]), bound=2.0, magnitude=None).holds is holds


def test_floor_follows_the_operands() -> None:
    """A sum of terms of size 1e4 that cancels may be off by what rounding those loses."""
    want, size = np.array([1e-4]), np.array([1e4])
    off = np.array([1e-4 + 2e-3], np.float32)
    assert within(off, want, bound=2.0, magnitude=size).holds
    assert not within(off, want, bound=2.0, magnitude=None).holds
    assert not within(off, want, bound=1.0, magnitude=size).holds


def test_distance_counts_ulps() -> None:
    one = np.float32(1)
    up = np.nextafter(one, np.float32(2))
    assert distances(np.array([up]), np.array([1.0]), magnitude=None)[0] == 1.0
    down = np.nextafter(one, np.float32(0))
    assert (
        distances(np.array([down]), np.array([1.0]), magnitude=None)[0] == 0.5
    )  # half the spacing below 1
    tiny = np.array([3], np.int32).view(np.float32)
    assert distances(tiny, np.array([2.0**-149]), magnitude=None)[0] == 2.0


def test_bounds_have_no_default() -> None:
    y = np.ones(1, np.float32)
    with pytest.raises(TypeError):
        within(y, np.ones(1))  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        within(y, np.ones(1), bound=1.0)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="number of steps"):
        within(y, np.ones(1), bound=float("nan"), magnitude=None)


def test_stray_writes_are_seen() -> None:
    out = poisoned("y", (3, 5), np.dtype(np.float32))
    assert out.unwritten() == 15
    out.array[...] = 1
    assert (out.unwritten(), out.faults()) == (0, [])
    raw = np.lib.stride_tricks.as_strided(out.array.reshape(-1), (16,))
    raw[15] = 1
    assert "behind" in out.faults()[0]
    given = holding("x", np.ones(4, np.float32), written=False)
    given.array[2] = 7
    assert "input was written" in given.faults()[0]
    assert holding("c", np.ones(4, np.float32), written=True).faults() == []


def _run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_1_nothing_selected_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run("-m", "pytest", "-q", "lanes/suite/abi.py", "-k", "no_such_row").returncode != 0
    monkeypatch.setattr(sys, "argv", ["measure", "--only", "no.such.row"])
    assert measure.main() == 2
    empty = np.zeros((0, 3), np.float32)
    assert not within(empty, empty.astype(np.float64), bound=1.0, magnitude=None).holds
    assert not bitwise_equal(empty, empty).holds


def test_2_a_skip_is_a_failure(tmp_path: Path) -> None:
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
    assert not within(
        np.ones(3, np.float32), np.array([1.0, NAN, 1.0]), bound=1e30, magnitude=None
    ).holds


def test_4_non_finite_results_are_compared() -> None:
    for bad in (NAN, INF, -INF):
        assert not within(
            np.array([1.0, bad], np.float32), np.ones(2), bound=1e30, magnitude=None
        ).holds


def test_5_no_bound_reaches_the_signal() -> None:
    """Two percent on every element of a bounded row is hundreds of times any recorded bound.

    No bound tops its ceiling.
    """
    for name, entry in tolerances.read().items():
        assert entry.bound <= entry.ceiling, name
        if not name.startswith("interop."):
            assert entry.bound * 2.0**-23 < 0.02 / 100, name


def test_6_one_element_in_a_million_is_seen() -> None:
    want = np.random.default_rng(0).standard_normal(1_000_000) + 3
    got = want.astype(np.float32)
    got[777_777] *= np.float32(1.0001)
    assert "(777777,)" in within(got, want, bound=1.0, magnitude=None).reason


def test_7_oracles_are_confirmed_without_the_product() -> None:
    """Independence and central differences are tests/test_oracles.py.

    Here: the lanes find oracles there alone.
    """
    text = (ROOT / "lanes" / "trial.py").read_text()
    assert 'import_module(f"oracles.ops.' in text
    assert not any(
        "retrograd" in path.read_text() for path in (ROOT / "oracles" / "ops").glob("*.py")
    )


def test_8_the_oracle_is_wider_than_what_it_judges() -> None:
    """It is not rounded before the comparison: half a step off is half a step, not zero."""
    want = np.array([1.0 + 2.0**-24])
    assert distances(np.ones(1, np.float32), want, magnitude=None)[0] == 0.5


def test_9_the_recorded_bound_is_read() -> None:
    """The same results fail under a smaller bound."""
    row = _row("rms_norm.forward.f32.cpu")
    case = next(c for c in drawn(row, 0, fast=True) if c.corpus == "gaussian")
    bound = tolerances.bound_of(row.id, tolerances.read())
    assert observe(row, case, bound=bound).failures == []
    failures = observe(row, case, bound=0.25).failures
    assert failures
    assert failures[0].row_id == row.id


def test_10_one_seed_sets_no_bound() -> None:
    assert all(entry.seeds >= 8 for entry in tolerances.read().values())
    old = Tolerance(samples=1000, seeds=8, worst=3.0, p999=1.0, ceiling=50.0, bound=10.0)
    lucky = replace(old, seeds=1, worst=0.5, bound=1.0)
    assert merged(old, lucky, "row") == old
    assert merged(old, replace(lucky, seeds=8, samples=10), "row") == old
    assert merged(old, replace(lucky, seeds=8), "row").bound == 1.0


def test_11_noise_alone_would_miss_faults() -> None:
    """These planted faults pass on Gaussian noise; another corpus sees each of them."""
    for fault in ("exp.forward.f32.cpu:flush_subnormal", "log.forward.f32.cpu:subnormal_as_zero"):
        row = _row(fault.split(":")[0])
        on = open_device("cpu", threads=1, faults=True)
        on.set_fault(fault)
        seen = {
            c.corpus
            for c in drawn(row, 0, fast=False)
            if observe(row, c, bound=None, on=on).failures
        }
        assert "ladder" in seen
        assert "lattice" not in seen


def test_12_a_correctly_rounded_result_always_holds() -> None:
    """Half a step is enough at every size, from the smallest subnormal to the largest number."""
    want = np.ldexp(np.random.default_rng(0).uniform(1, 2, 300), np.arange(-150, 150) // 1).clip(
        0, 3.4028234e38
    )
    with np.errstate(under="ignore"):
        got = want.astype(np.float32)
    assert within(got, want, bound=0.5, magnitude=None).holds


def test_13_recorded_numbers_are_those_the_command_wrote() -> None:
    """The file is its own canonical text, and every bound follows from its numbers."""
    table = tolerances.read()
    assert tolerances.PATH.read_text(encoding="utf-8") == tolerances.text(table)
    for name, entry in table.items():
        assert (
            entry.worst
            <= entry.bound
            <= lawful_bound(max(entry.worst, entry.bound / 2), entry.ceiling)
        ), name
        assert entry.p999 <= entry.worst, name


def test_a_bound_is_never_raised() -> None:
    old = Tolerance(samples=1000, seeds=8, worst=3.0, p999=1.0, ceiling=50.0, bound=10.0)
    with pytest.raises(RaisedError, match="never raised"):
        merged(old, replace(old, worst=11.0, bound=50.0), "row")
    assert merged(old, replace(old, worst=6.0, bound=20.0), "row") == old


@pytest.mark.parametrize(
    ("worst", "ceiling", "bound"),
    [
        (0.0, 9.0, 0.0),
        (0.5, 0.5, 0.5),
        (0.3, 9.0, 1.0),
        (1.0, 9.0, 2.0),
        (1.01, 9.0, 5.0),
        (2.6, 50.0, 10.0),
        (40.0, 60.0, 60.0),
    ],
)
def test_law_of_bounds(worst: float, ceiling: float, bound: float) -> None:
    assert lawful_bound(worst, ceiling) == bound


def test_nothing_above_a_derived_ceiling_gets_a_bound() -> None:
    with pytest.raises(ValueError, match="derived ceiling"):
        lawful_bound(3.0, 2.0)
    with pytest.raises(measure.BrokenError, match="derived ceiling"):
        measure.measure_whole(lambda _folder, _seed: (np.array([3.0]), 2.0), ROOT)


def test_draws_depend_on_name_key_and_seed() -> None:
    first = draw("ladder", "op", 3, seed=1).array((50,))
    assert np.array_equal(first, draw("ladder", "op", 3, seed=1).array((50,)))
    for other in (
        draw("ladder", "op", 3, seed=2),
        draw("ladder", "op", 4, seed=1),
        draw("gaussian", "op", 3, seed=1),
    ):
        assert not np.array_equal(first, other.array((50,)))
