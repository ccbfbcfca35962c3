"""The oracles' random streams, rotary tables and pinned polynomials."""

from typing import Any

import numpy as np
import pytest

from oracles import philox, rope_tables
from oracles.ops import exp, swiglu
from oracles.pinned import elementary


@pytest.mark.parametrize(("counter", "key", "answer"), philox.KNOWN_ANSWERS)
def test_philox_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    assert philox.block(counter, key) == answer


def test_philox_streams_in_two_ways() -> None:
    """The array form against exact integers, up to a block index in the upper counter word."""
    seed, tensor, step = 0xFEDCBA9876543210, 0x89ABCDEF, 7
    elements = np.array([0, 1, 5, 4 * (2**32 + 3) + 2, 4 * (2**40) + 3], dtype=np.int64)
    words = philox.words(elements, seed=seed, purpose=1, step=step, tensor=tensor)
    for element, word in zip(elements.tolist(), words.tolist(), strict=True):
        index, lane = divmod(element, 4)
        counter = (index & 0xFFFFFFFF, (index >> 32) << 8 | 1, step, tensor)
        assert philox.block(counter, (seed & 0xFFFFFFFF, seed >> 32))[lane] == word


SCALINGS: tuple[dict[str, Any], ...] = (
    {},
    {"linear": 4.0},
    {"llama3": rope_tables.Llama3(8.0, 1.0, 4.0, 8192)},
)


@pytest.mark.parametrize("scaling", SCALINGS, ids=["none", "linear", "llama3"])
def test_rope_tables_against_mpmath(scaling: dict[str, Any]) -> None:
    n_rot, base = 64, 500000.0
    f = rope_tables.frequencies(n_rot, base, **scaling)
    cos, sin = rope_tables.tables(4001, f)
    for position, pair in ((0, 0), (1, 31), (17, 5), (4000, 0), (4000, 20), (4000, 31)):
        exact_cos, exact_sin = rope_tables.exact_entry(position, pair, n_rot, base, **scaling)
        # The angle is rounded at its size; nothing else is lost.
        assert abs(cos[position, pair] - exact_cos) < 1e-15 * (2 + position)
        assert abs(sin[position, pair] - exact_sin) < 1e-15 * (2 + position)


def test_rope_factors_divide_frequencies() -> None:
    factors = np.array([1.0, 2.0, 32.0, 8.0])
    f = rope_tables.frequencies(8, 10000.0, factors=factors)
    _, sin = rope_tables.tables(50, f)
    for pair, factor in enumerate(factors):
        assert (
            abs(sin[49, pair] - rope_tables.exact_entry(49, pair, 8, 10000.0, factor=factor)[1])
            < 1e-13
        )


def test_llama3_bands_meet() -> None:
    """Short waves are kept, long ones divided, and both ends of the blend meet their neighbours."""
    rule = rope_tables.Llama3(8.0, 1.0, 4.0, 8192)
    plain = rope_tables.frequencies(128, 500000.0)
    scaled = rope_tables.frequencies(128, 500000.0, llama3=rule)
    ratio = plain / scaled
    wavelength = 2 * np.pi / plain
    assert np.abs(ratio[wavelength < 2048] - 1).max() == 0
    assert np.abs(ratio[wavelength > 8192] - 8).max() < 1e-14
    assert (np.diff(ratio) >= -1e-14).all()


def test_pinned_polynomials_are_close_to_the_functions() -> None:
    """The replays define exact bits; here they must also be the functions they are named after."""
    x = np.concatenate([np.linspace(-104, 88, 4001), [-0.0, 0.0]]).astype(np.float32)
    want = exp.forward(x=x.astype(np.float64))["y"]
    normal = want > 2.0**-126
    assert np.abs(elementary.exp(x)[normal] / want[normal] - 1).max() < 2.0**-23
    positive = np.abs(x[x != 0])
    exact = np.log(positive.astype(np.float64))
    error = np.abs(elementary.log(positive) - exact) / np.maximum(np.abs(exact), 2.0**-20)
    assert error.max() < 2.0**-22
    value, slope = elementary.silu(x)
    wide = x.astype(np.float64)
    assert np.abs(value - swiglu.forward(g=wide, u=np.ones_like(wide))["y"]).max() < 1e-5
    assert (
        np.abs(
            slope - swiglu.backward(dy=np.ones_like(wide), g=wide, u=np.ones_like(wide))["dg"]
        ).max()
        < 1e-6
    )
