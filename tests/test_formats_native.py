"""Native decoders equal the gguf package's bit for bit, on both instruction-set variants.

Random codes under every 16-bit scale pattern, infinities and NaNs included. Formats with blocks of
256 elements take a sixteenth of the patterns in the `fast` plan, all of them in any other plan.
"""

import numpy as np
import pytest
from format_blocks import Bytes, Singles, blocks, decoded_by_gguf, differing

from retrograd.backends import Device, open_device
from retrograd.formats import FORMATS
from retrograd.runtime.launch import launch

GUARD_ELEMENTS = 16
POISON = np.float32(1.5e-42)


@pytest.fixture(scope="module", params=["portable", "avx2"])
def device(request: pytest.FixtureRequest) -> Device:
    return open_device(threads=2, isa=request.param)


@pytest.fixture(scope="module")
def every(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--plan", default="fast") != "fast"


def decode(device: Device, name: str, stored: Bytes) -> Singles:
    """Through the library, from an odd address into poisoned memory between guards."""
    n = stored.size // FORMATS[name].block_bytes * FORMATS[name].block_elements
    shifted = np.empty(stored.size + 1, np.uint8)[1:]
    shifted[:] = stored.reshape(-1)
    out = np.full(n + 2 * GUARD_ELEMENTS, POISON)
    inside = out[GUARD_ELEMENTS:-GUARD_ELEMENTS]
    dtype = name if name == "f32" else f"{name}-f32"
    launch(device, f"dequantize.forward.{dtype}.cpu", w=shifted, y=inside, n=n)
    guards = np.concatenate([out[:GUARD_ELEMENTS], out[-GUARD_ELEMENTS:]])
    assert (guards.view(np.uint32) == POISON.view(np.uint32)).all()
    return inside


@pytest.mark.parametrize("name", FORMATS)
def test_every_scale_pattern_decodes_to_the_same_bits(
    name: str, device: Device, *, every: bool
) -> None:
    stored = blocks(name, every=every)
    assert differing(decode(device, name, stored), decoded_by_gguf(name, stored)) == 0


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33])
def test_runs_that_are_no_multiple_of_a_vector_decode_whole(
    name: str, n: int, device: Device
) -> None:
    stored = blocks(name, every=False)[1000 : 1000 + n]
    assert differing(decode(device, name, stored), decoded_by_gguf(name, stored)) == 0


def test_one_changed_bit_is_seen(device: Device) -> None:
    stored = blocks("q4_1", every=False)[:64]
    values = decode(device, "q4_1", stored).copy()
    assert differing(values, decoded_by_gguf("q4_1", stored)) == 0
    values.view(np.uint32)[5] ^= 1
    assert differing(values, decoded_by_gguf("q4_1", stored)) == 1
