"""Cosine and sine tables of the rotary embedding, in float64 on the host, rounded once to float32.

angle(t, i) = t base^(-2i/n) / (scaling(i) f_i): linear scaling divides every frequency by a factor;
llama3 scaling
divides those whose wavelength exceeds original_context / low_freq_factor by the factor, keeps those
below
original_context / high_freq_factor, and blends in between; f_i are a file's own frequency factors
(rope_freqs.weight).
"""

import numpy as np
import numpy.typing as npt

from retrograd.families.family import ModelConfig, RopeScaling

Float64s = npt.NDArray[np.float64]


def rope_tables(
    config: ModelConfig, positions: int, factors: npt.NDArray[np.float32] | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """cos and sin, each (positions, n_rot / 2) float32."""
    frequencies = config.rope_base ** (
        -np.arange(0, config.n_rot, 2, dtype=np.float64) / config.n_rot
    )
    frequencies = _scaled(frequencies, config.rope_scaling)
    if factors is not None:
        frequencies = frequencies / factors.astype(np.float64)
    angles = np.arange(positions, dtype=np.float64)[:, None] * frequencies[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _scaled(frequencies: Float64s, scaling: RopeScaling) -> Float64s:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    if scaling.kind != "llama3":
        return frequencies
    turns = scaling.original_context * frequencies / (2 * np.pi)
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = np.clip(blend, 0.0, 1.0)
    return (1 - blend) * frequencies / scaling.factor + blend * frequencies
