"""Lane `formats`.

Every storage format: its native decoder on every variant, its oracle, and the decoder of the gguf
package give the same bits; blocks have the sizes that the gguf package says.

Random codes under every 16-bit scale pattern, infinities and NaNs included; formats with blocks of
256 elements take a sixteenth of the patterns in the `fast` plan.
"""

from collections.abc import Iterator

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from lanes.format_blocks import Bytes, Singles, blocks, decoded_by_gguf, differing, patterns
from lanes.observation import Observe
from lanes.registry import Need, Planned, lane
from lanes.trial import device, variants
from oracles.formats import DECODERS
from retrograd.backends import Device
from retrograd.formats import FORMATS, Format
from retrograd.runtime.launch import launch

GUARD_ELEMENTS = 16
POISON = np.float32(1.5e-42)
_ROW = "formats."


def _decoded(case: str, plan: str) -> Iterator[Planned]:
    for name in FORMATS:
        yield Planned(f"{_ROW}{name}", case, inputs=len(patterns(name, every=plan == "full")))


def _native(plan: str) -> Iterator[Planned]:
    return _decoded("native", plan)


def _oracle(plan: str) -> Iterator[Planned]:
    return _decoded("oracle", plan)


def _layout(_plan: str) -> Iterator[Planned]:
    return (Planned(f"{_ROW}{name}", "layout") for name in FORMATS)


def decode(on: Device, name: str, stored: Bytes) -> Singles:
    """Through the library, from an odd address into poisoned memory between guards."""
    n = stored.size // FORMATS[name].block_bytes * FORMATS[name].block_elements
    shifted = np.empty(stored.size + 1, np.uint8)[1:]
    shifted[:] = stored.reshape(-1)
    out = np.full(n + 2 * GUARD_ELEMENTS, POISON)
    inside = out[GUARD_ELEMENTS:-GUARD_ELEMENTS]
    dtype = name if name == "f32" else f"{name}-f32"
    launch(on, f"dequantize.forward.{dtype}.cpu", w=shifted, y=inside, n=n)
    guards = np.concatenate([out[:GUARD_ELEMENTS], out[-GUARD_ELEMENTS:]])
    assert (guards.view(np.uint32) == POISON.view(np.uint32)).all(), "written beyond the output"
    return inside


@lane("formats", rows=_native, needs=(Need.DEVICE,))
def test_native_decoder_gives_the_bits_of_the_gguf_package(
    row: str, case: str, plan: str, observe: Observe
) -> None:
    """On every variant of this machine."""
    del case
    name = row.removeprefix(_ROW)
    stored = blocks(name, every=plan == "full")
    wanted = decoded_by_gguf(name, stored)
    wrong = {isa: differing(decode(device(2, isa), name, stored), wanted) for isa in variants()}
    observe.equal(wanted.size * len(wrong), sum(wrong.values()), inputs=len(stored))
    assert not any(wrong.values()), f"elements that differ: {wrong}"


@lane("formats", rows=_oracle)
def test_oracle_rounded_once_is_the_decoder_of_the_gguf_package(
    row: str, case: str, plan: str, observe: Observe
) -> None:
    """Exact values in float64, rounded once: no order of operations can give other bits."""
    del case
    name = row.removeprefix(_ROW)
    stored = blocks(name, every=plan == "full")
    with np.errstate(all="ignore"):
        exact = DECODERS[name](stored).astype(np.float32).reshape(-1)
    wrong = differing(exact, decoded_by_gguf(name, stored))
    observe.equal(exact.size, wrong, inputs=len(stored))
    assert wrong == 0


@lane("formats", rows=_layout)
def test_block_has_the_sizes_of_the_gguf_package(row: str, case: str, observe: Observe) -> None:
    """Number of the type, elements and bytes of a block."""
    del case
    found = FORMATS[row.removeprefix(_ROW)]
    kind = GGMLQuantizationType[found.name.upper()]
    same = found == Format(found.name, int(kind), *GGML_QUANT_SIZES[kind])
    observe.equal(3, int(not same))
    assert same


def test_one_changed_bit_is_seen() -> None:
    """A comparison that cannot fail proves nothing."""
    stored = blocks("q4_1", every=False)[:64]
    values = decode(device(2, None), "q4_1", stored).copy()
    assert differing(values, decoded_by_gguf("q4_1", stored)) == 0
    values.view(np.uint32)[5] ^= 1
    assert differing(values, decoded_by_gguf("q4_1", stored)) == 1


def test_every_format_has_an_oracle() -> None:
    """By name, in the same order."""
    assert list(DECODERS) == list(FORMATS)
