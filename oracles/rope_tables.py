"""Cosine and sine tables of rotary embeddings, in mpmath and in float64.

Angle of pair i at position t: t f_i, with f_i = base^(-2 i / n_rot), changed by one of: linear
position interpolation (arXiv:2306.15595), the frequency bands of Llama 3.1 (from its model card's
published rule), or a tensor of frequency factors that divides f_i.
"""

from dataclasses import dataclass

import mpmath as mp
import numpy as np
from jaxtyping import Float64

from oracles.array import Array


@dataclass(frozen=True)
class Llama3:
    """Scaling of Llama 3.1.

    Long waves are slowed by ``factor``, short ones kept, those between blended.
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int


def frequencies(
    n_rot: int,
    base: float,
    *,
    linear: float = 1.0,
    llama3: Llama3 | None = None,
    factors: Float64[Array, " half"] | None = None,
) -> Float64[Array, " half"]:
    """Angle per position of each pair, radians."""
    f = base ** (-2.0 * np.arange(n_rot // 2) / n_rot)
    if llama3 is not None:
        f = np.array([float(_llama3(mp.mpf(x), llama3)) for x in f])
    return f / linear / (1.0 if factors is None else factors)


def tables(n_positions: int, f: Float64[Array, " half"]) -> tuple[Array, Array]:
    """cos and sin of t f_i, each (P, half). In float64 the angle is true to t f_i 2^-53."""
    angle = np.arange(n_positions)[:, None] * f
    return np.cos(angle), np.sin(angle)


def exact_entry(
    position: int,
    pair: int,
    n_rot: int,
    base: float,
    *,
    linear: float = 1.0,
    llama3: Llama3 | None = None,
    factor: float = 1.0,
) -> tuple[mp.mpf, mp.mpf]:
    """One table entry to 50 digits: (cos, sin) of position f_pair."""
    with mp.workdps(50):
        f = mp.mpf(base) ** (-mp.mpf(2 * pair) / n_rot)
        if llama3 is not None:
            f = _llama3(f, llama3)
        angle = position * f / mp.mpf(linear) / mp.mpf(factor)
        return mp.cos(angle), mp.sin(angle)


def _llama3(f: mp.mpf, rule: Llama3) -> mp.mpf:
    wavelength = 2 * mp.pi / f
    longest, shortest = (
        rule.original_context / mp.mpf(x)
        for x in (rule.low_frequency_factor, rule.high_frequency_factor)
    )
    if wavelength < shortest:
        return f
    if wavelength > longest:
        return f / rule.factor
    low, high = mp.mpf(rule.low_frequency_factor), mp.mpf(rule.high_frequency_factor)
    blend = (rule.original_context / wavelength - low) / (high - low)
    return (1 - blend) * f / rule.factor + blend * f
