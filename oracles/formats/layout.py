"""Reading fields of stored blocks by element index.

A block array is (N, bytes) uint8. Each format states, for element i of its block, which byte and
which bits hold its code, and the formula that gives its value. Formulas are evaluated in float64:
scales have 11 significant bits, small codes at most 8, so every product and the one sum are exact
there, and a decoder that rounds correctly in float32 gives exactly the float32 nearest to it.
"""

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from numpy.typing import NDArray

from oracles.array import Array

Blocks = NDArray[np.uint8]
Codes = NDArray[np.int64]


def half(blocks: UInt8[Blocks, "N bytes"], at: int) -> Float64[Array, "N 1"]:
    """The IEEE binary16 at byte `at` of each block, from its sign, exponent and fraction."""
    word = blocks[:, at].astype(np.int64) | (blocks[:, at + 1].astype(np.int64) << 8)
    sign = np.where(word >> 15 == 1, -1.0, 1.0)
    exponent, fraction = (word >> 10) & 31, word & 1023
    # ldexp, with the leading one that a subnormal lacks.
    finite = np.ldexp(
        np.where(exponent == 0, fraction, fraction + 1024).astype(np.float64),
        np.maximum(exponent, 1) - 25,
    )
    special = np.where(fraction == 0, np.inf, np.nan)
    return (sign * np.where(exponent == 31, special, finite))[:, None]


def bits(
    blocks: UInt8[Blocks, "N bytes"], at: Codes, shift: Codes | int, count: int
) -> Int64[Codes, "N elements"]:
    """For each element, `count` bits from bit `shift` of byte `at` on."""
    return (blocks[:, at].astype(np.int64) >> shift) & ((1 << count) - 1)


def signed(codes: Int64[Codes, "N elements"]) -> Int64[Codes, "N elements"]:
    """Bytes read as two's complement."""
    return codes - 256 * (codes >> 7)


def pair_codes(blocks: UInt8[Blocks, "N bytes"], at: int) -> Int64[Codes, "N 256"]:
    """Two bits of each of 256 elements: 128 share 32 bytes, each run of 32 one pair higher."""
    i = np.arange(256)
    return bits(blocks, at + 32 * (i // 128) + i % 32, 2 * (i // 32 % 4), 2)


def run_bits(blocks: UInt8[Blocks, "N bytes"], at: int) -> Int64[Codes, "N 256"]:
    """One bit of each of 256 elements: element 32 b + j has bit b of byte j."""
    i = np.arange(256)
    return bits(blocks, at + i % 32, i // 32, 1)


def run_nibbles(blocks: UInt8[Blocks, "N bytes"], at: int) -> Int64[Codes, "N 256"]:
    """Four bits of each of 256 elements: runs of 32 alternate between low and high halves."""
    i = np.arange(256)
    return bits(blocks, at + 32 * (i // 64) + i % 32, 4 * (i // 32 % 2), 4)


def halves_nibbles(blocks: UInt8[Blocks, "N bytes"], at: int) -> Int64[Codes, "N 32"]:
    """Four bits of each of 32 elements: 16 in the low halves of 16 bytes, 16 in the high ones."""
    i = np.arange(32)
    return bits(blocks, at + i % 16, 4 * (i // 16), 4)


def element_bits(blocks: UInt8[Blocks, "N bytes"], at: int) -> Int64[Codes, "N 32"]:
    """One bit of each of 32 elements, in order over four bytes."""
    i = np.arange(32)
    return bits(blocks, at + i // 8, i % 8, 1)


def six_bit_scales(blocks: UInt8[Blocks, "N bytes"], at: int) -> tuple[Codes, Codes]:
    """Scale and min of each of 256 elements: 12 bytes hold eight of each, a pair per run of 32."""
    run = np.arange(256) // 32
    early, k = run < 4, run % 4
    scale = np.where(
        early,
        bits(blocks, at + k, 0, 6),
        bits(blocks, at + 8 + k, 0, 4) | (bits(blocks, at + k, 6, 2) << 4),
    )
    low = bits(blocks, at + 8 + k, 4, 4) | (bits(blocks, at + 4 + k, 6, 2) << 4)
    return scale, np.where(early, bits(blocks, at + 4 + k, 0, 6), low)
