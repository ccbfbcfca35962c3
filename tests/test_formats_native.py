"""Native decoders on lengths that are no multiple of a vector; the rest is the lane `formats`."""

import pytest

from lanes.format_blocks import blocks, decoded_by_gguf, differing
from lanes.suite.formats import decode
from lanes.trial import device, variants


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33])
def test_runs_that_are_no_multiple_of_a_vector_decode_whole(name: str, n: int) -> None:
    stored = blocks(name, every=False)[1000 : 1000 + n]
    for isa in variants():
        got = decode(device(2, isa), name, stored)
        assert differing(got, decoded_by_gguf(name, stored)) == 0
