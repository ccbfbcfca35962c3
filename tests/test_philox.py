"""Philox4x32-10 against the published known answers, and the layout of a run's streams."""

import hashlib

import numpy as np
import pytest

from retrograd.errors import ConfigError
from retrograd.philox import Purpose, name_word, philox4x32, stream_words

# kat_vectors of the Random123 distribution: counter, key word 0 and 1, result.
KNOWN_ANSWERS = [
    ([0, 0, 0, 0], (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (
        [0xFFFFFFFF] * 4,
        (0xFFFFFFFF, 0xFFFFFFFF),
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
    ),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_published_known_answers(
    counter: list[int], key: tuple[int, int], expected: list[int]
) -> None:
    words = philox4x32(np.array(counter, dtype=np.uint32), key[1] << 32 | key[0])
    assert words.dtype == np.uint32
    assert words.tolist() == expected


def test_any_leading_shape() -> None:
    counters = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
    words = philox4x32(counters, 7)
    assert words.shape == (2, 3, 4)
    assert words[1, 2].tolist() == philox4x32(counters[1, 2], 7).tolist()


def test_counter_layout_of_a_stream() -> None:
    block = (0xABCDEF << 32) | 0x12345678
    words = stream_words(99, Purpose.SAMPLING, 5, "blk.0", 4, first_block=block)
    name = int(hashlib.sha256(b"blk.0").hexdigest()[:8], 16)
    counter = np.array([0x12345678, 0xABCDEF02, 5, name], dtype=np.uint32)
    assert words.tolist() == philox4x32(counter, 99).tolist()
    assert name_word("blk.0") == name


def test_purposes_have_their_fixed_numbers() -> None:
    assert [p.name.lower() for p in sorted(Purpose)] == [
        "rounding",
        "dropout",
        "sampling",
        "shuffle",
        "init",
    ]
    assert sorted(map(int, Purpose)) == [0, 1, 2, 3, 4]


def test_a_stream_can_be_entered_anywhere() -> None:
    whole = stream_words(1, Purpose.DROPOUT, 3, "x", 22)
    assert whole.shape == (22,)
    later = stream_words(1, Purpose.DROPOUT, 3, "x", 14, first_block=2)
    assert later.tolist() == whole[8:].tolist()
    assert stream_words(1, Purpose.DROPOUT, 3, "x", 0).tolist() == []


@pytest.mark.parametrize(
    ("seed", "purpose", "step", "name"),
    [
        (2, Purpose.INIT, 0, "a"),
        (1, Purpose.DROPOUT, 0, "a"),
        (1, Purpose.INIT, 1, "a"),
        (1, Purpose.INIT, 0, "b"),
        (1 << 32 | 1, Purpose.INIT, 0, "a"),
    ],
)
def test_each_coordinate_changes_the_words(
    seed: int, purpose: Purpose, step: int, name: str
) -> None:
    base = stream_words(1, Purpose.INIT, 0, "a", 64)
    other = stream_words(seed, purpose, step, name, 64)
    assert int(np.count_nonzero(base == other)) == 0


@pytest.mark.parametrize(
    ("seed", "step", "block"), [(1 << 64, 0, 0), (-1, 0, 0), (0, 1 << 32, 0), (0, 0, 1 << 56)]
)
def test_values_that_do_not_fit_are_refused(seed: int, step: int, block: int) -> None:
    with pytest.raises(ConfigError, match="must lie between 0 and 2"):
        stream_words(seed, Purpose.INIT, step, "a", 4, first_block=block)
