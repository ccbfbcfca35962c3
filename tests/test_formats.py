"""The registry, the C++ headers and the fixture encoders describe the same layouts as gguf."""

import re
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from fixtures.blocks import ENCODERS, encode
from fixtures.draws import bell, words
from retrograd.formats import FORMATS, Format

HEADERS = Path(__file__).parents[1] / "native" / "include" / "retrograd" / "formats"
# Worst root mean square error of the fixture encoder on bell-shaped values, in deviations.
ERRORS = {
    "f32": 0.0,
    "f16": 5e-4,
    "bf16": 4e-3,
    "q8_0": 0.01,
    "q6_k": 0.03,
    "q5_k": 0.05,
    "q5_1": 0.05,
    "q5_0": 0.06,
    "q4_k": 0.1,
    "q4_1": 0.1,
    "q4_0": 0.12,
    "q3_k": 0.25,
    "q2_k": 0.4,
}


@pytest.mark.parametrize("name", FORMATS)
def test_row_has_the_sizes_of_the_gguf_package(name: str) -> None:
    row = FORMATS[name]
    kind = GGMLQuantizationType[name.upper()]
    assert row == Format(name, int(kind), *GGML_QUANT_SIZES[kind])


@pytest.mark.parametrize("name", FORMATS)
def test_native_header_declares_the_same_block(name: str) -> None:
    text = (HEADERS / f"{name}.h").read_text(encoding="utf-8")
    found = re.findall(
        r"struct (\w+) \{\s+static constexpr int block_elements = (\d+), block_bytes = (\d+);", text
    )
    row = FORMATS[name]
    assert found == [(name, str(row.block_elements), str(row.block_bytes))]
    include = f'#include "retrograd/formats/{name}.h"'
    assert include in (HEADERS / "decode.h").read_text(encoding="utf-8")


def test_bytes_are_counted_in_whole_blocks() -> None:
    assert FORMATS["q4_k"].n_bytes(512) == 288
    assert FORMATS["f16"].n_bytes(3) == 6
    assert FORMATS["q8_0"].n_bytes(0) == 0
    with pytest.raises(ValueError, match="q8_0 holds blocks of 32; got 33"):
        FORMATS["q8_0"].n_bytes(33)


@pytest.mark.parametrize("name", FORMATS)
def test_encoded_values_decode_near_themselves(name: str) -> None:
    values = bell("encode", (8, 512), mean=0.02, deviation=0.1)
    stored = encode(values, name)
    assert stored.nbytes == FORMATS[name].n_bytes(values.size)
    decoded = dequantize(stored.reshape(8, -1), GGMLQuantizationType[name.upper()])
    error = np.sqrt(np.mean((decoded.astype(np.float64) - values) ** 2)) / values.std()
    assert error <= ERRORS[name]


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_encode_to_zeros(name: str) -> None:
    stored = encode(np.zeros((2, 256), np.float32), name)
    decoded = dequantize(stored.reshape(2, -1), GGMLQuantizationType[name.upper()])
    assert np.count_nonzero(decoded) == 0


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_grids_of_scalar_formats_are_kept(name: str) -> None:
    """Encoding what was decoded changes no bit: half-precision files and their f32 twins agree."""
    kind = GGMLQuantizationType[name.upper()]
    once = encode(bell("grid", (4, 256), mean=0.0, deviation=1.0), name)
    again = encode(np.asarray(dequantize(once.reshape(4, -1), kind), np.float32), name)
    assert np.array_equal(once, again)


def test_encoder_refuses_broken_blocks() -> None:
    with pytest.raises(ValueError, match="q4_k holds blocks of 256; got rows of 128"):
        encode(np.zeros((2, 128), np.float32), "q4_k")
    assert set(ENCODERS) == set(FORMATS)


def test_draws_are_pinned() -> None:
    """The first words of a stream, as splitmix64 gives them from this start."""
    assert [int(w) for w in words("", 2)] == PINNED_WORDS
    sample = bell("shape", (100, 100), mean=2.0, deviation=0.5)
    assert abs(float(sample.mean()) - 2.0) < 0.02
    assert abs(float(sample.std()) - 0.5) < 0.01
    assert float(np.abs(sample - 2.0).max()) <= 0.5 * 3.4642
    assert np.array_equal(sample[0, :7], bell("shape", (7,), mean=2.0, deviation=0.5))


def splitmix64(start: int, n: int) -> list[int]:
    """The published generator in Python integers."""
    mask = (1 << 64) - 1
    out: list[int] = []
    for i in range(1, n + 1):
        z = (start + i * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


# SHA-256 of nothing starts with e3b0c44298fc1c14.
PINNED_WORDS = splitmix64(int.from_bytes(bytes.fromhex("e3b0c44298fc1c14"), "little"), 2)
