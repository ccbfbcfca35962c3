"""Philox4x32-10 (Salmon et al., SC'11, "Parallel random numbers.

As easy as 1, 2, 3"), in Python integers and numpy.
"""

import numpy as np
from numpy.typing import NDArray

from oracles.array import Words

PURPOSES = {"rounding": 0, "dropout": 1, "sampling": 2, "shuffle": 3, "init": 4}

# Counter, key and result of the authors' published known-answer file.
KNOWN_ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


def block(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The four words of one counter, in exact integer arithmetic."""
    a, b, c, d = counter
    for i in range(10):
        k0, k1 = ((key[j] + i * _STEPS[j]) & _MASK for j in range(2))
        high0, low0 = divmod(_MULTIPLIERS[0] * a, 1 << 32)
        high1, low1 = divmod(_MULTIPLIERS[1] * c, 1 << 32)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
    return a, b, c, d


def words(elements: NDArray[np.int64], *, seed: int, purpose: int, step: int, tensor: int) -> Words:
    """The stream's word of each element number: word e % 4 of block e // 4.

    Args:
        elements: any shape; numbers from 0 to 2^58 - 1.
        seed: 64-bit key, low half first.
        tensor: counter word 3, the first 32 bits of SHA-256 of the tensor's name.
    """
    blocks = elements.astype(np.uint64) // np.uint64(4)
    low, shift = np.uint64(_MASK), np.uint64(32)
    a = blocks & low
    b = ((blocks >> shift) << np.uint64(8)) & low | np.uint64(purpose)
    c, d = np.full_like(a, step), np.full_like(a, tensor)
    for i in range(10):
        k0, k1 = (np.uint64(((seed >> (32 * j)) + i * _STEPS[j]) & _MASK) for j in range(2))
        product0, product1 = a * np.uint64(_MULTIPLIERS[0]), c * np.uint64(_MULTIPLIERS[1])
        a, b, c, d = (
            (product1 >> shift) ^ b ^ k0,
            product1 & low,
            (product0 >> shift) ^ d ^ k1,
            product0 & low,
        )
    return np.choose(elements % 4, [a, b, c, d]).astype(np.uint32)
