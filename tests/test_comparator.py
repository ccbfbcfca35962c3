"""The comparator: its order of judgement, and single faults in a perfect result."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from lanes.comparator import bitwise_equal, distances, equal_values, within
from lanes.corpora import draw
from lanes.guards import holding, poisoned

Single = NDArray[np.float32]
INF, NAN = np.inf, np.nan


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


def test_draws_depend_on_name_key_and_seed() -> None:
    first = draw("ladder", "op", 3, seed=1).array((50,))
    assert np.array_equal(first, draw("ladder", "op", 3, seed=1).array((50,)))
    for other in (
        draw("ladder", "op", 3, seed=2),
        draw("ladder", "op", 4, seed=1),
        draw("gaussian", "op", 3, seed=1),
    ):
        assert not np.array_equal(first, other.array((50,)))
