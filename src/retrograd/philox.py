"""Random bits from a counter: Philox4x32-10 and the streams a run draws from.

A stream is addressed, never advanced: word ``i`` of the stream (seed, purpose, step, name) is a
pure function of those five values. A resumed run, another device or another batch split draws the
same bits.

One block is four 32-bit words, made from a 128-bit counter and the run seed as the 64-bit key:

    c0 = block index, low 32 bits
    c1 = block index, next 24 bits, shifted left by 8, or purpose
    c2 = optimizer step (or epoch, for the data order)
    c3 = first 32 bits of SHA-256 of the name, read big-endian

Element ``i`` of a stream uses word ``i % 4`` of block ``i // 4``.
"""

import hashlib
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import ConfigError

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_MASK = 0xFFFFFFFF
_ROUNDS = 10
_BLOCK_INDEX_BITS = 56


class Purpose(IntEnum):
    """What a stream is drawn for: the low 8 bits of counter word c1."""

    ROUNDING = 0
    DROPOUT = 1
    SAMPLING = 2
    SHUFFLE = 3
    INIT = 4


def philox4x32(counter: NDArray[np.uint32], key: int) -> NDArray[np.uint32]:
    """Ten Philox rounds on each counter.

    Args:
        counter: (..., 4) uint32, words c0 to c3.
        key: 64 bits; the low half is key word 0.

    Returns:
        (..., 4) uint32, independent random words of each counter.
    """
    low, high = np.uint64(_MASK), np.uint64(32)
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = key & _MASK, (key >> 32) & _MASK
    for _ in range(_ROUNDS):
        product_0, product_1 = c0 * _MULTIPLIER_0, c2 * _MULTIPLIER_1
        c0 = (product_1 >> high) ^ c1 ^ np.uint64(k0)
        c1 = product_1 & low
        c2 = (product_0 >> high) ^ c3 ^ np.uint64(k1)
        c3 = product_0 & low
        k0, k1 = (k0 + _WEYL_0) & _MASK, (k1 + _WEYL_1) & _MASK
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def name_word(name: str) -> int:
    """Counter word c3: the first 32 bits of SHA-256 of the name, big-endian."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:4], "big")


def stream_words(
    seed: int, purpose: Purpose, step: int, name: str, n_words: int, *, first_block: int = 0
) -> NDArray[np.uint32]:
    """Words of one stream.

    Args:
        seed: the run's seed, 0 to 2^64 - 1.
        purpose: what the words are for.
        step: optimizer step, or epoch for the data order, 0 to 2^32 - 1.
        name: the tensor's name, or what else the stream belongs to.
        n_words: how many words to return.
        first_block: block to start from; word 0 of the result is stream word ``4 * first_block``.

    Returns:
        (n_words,) uint32.

    Raises:
        ConfigError: a value does not fit its counter field.
    """
    n_blocks = -(-n_words // 4)
    _require("seed", seed, 64)
    _require("step", step, 32)
    _require("n_words", n_words, _BLOCK_INDEX_BITS + 2)
    _require("first_block", first_block, _BLOCK_INDEX_BITS)
    _require("the last block's index", first_block + n_blocks, _BLOCK_INDEX_BITS)
    block = np.arange(first_block, first_block + n_blocks, dtype=np.uint64)
    counter = np.empty((n_blocks, 4), dtype=np.uint32)
    counter[:, 0] = block & np.uint64(_MASK)
    counter[:, 1] = (block >> np.uint64(32)) << np.uint64(8) | np.uint64(purpose)
    counter[:, 2] = step
    counter[:, 3] = name_word(name)
    return philox4x32(counter, seed).reshape(-1)[:n_words]


def _require(what: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ConfigError(
            "random", f"{what} must lie between 0 and 2^{bits} - 1", value, "choose another value"
        )
