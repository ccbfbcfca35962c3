"""Any bytes at all either open or raise GgufError: no other error, no hang, no large allocation."""

import itertools
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import gguf_bytes as raw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.tiny import recipe, write
from retrograd.errors import GgufError
from retrograd.gguf import open_gguf

PEAK_BYTES = 4 << 20
TIME_S = 1.0
EXTREMES = (0, 0xFF, (1 << 31) - 1, 1 << 62, (1 << 64) - 1)
budget = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole model of about 100 kB, most of whose header is vocabulary."""
    made = recipe(layers=1, format="q8_0")
    return write(made, tmp_path_factory.mktemp("tiny")).read_bytes()


def attempt(folder: Path, content: bytes) -> bool:
    """Open, and use what opened; whether it opened. Anything but GgufError is a failure."""
    path = folder / "mutant.gguf"
    path.write_bytes(content)
    refusal, file = "[gguf] ", None
    tracemalloc.start()
    start_s = time.process_time()
    try:
        file = open_gguf(path)
    except GgufError as refused:
        refusal = str(refused)
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.process_time() - start_s < TIME_S
    assert peak_bytes < PEAK_BYTES
    assert refusal.startswith("[gguf] ")
    assert len(refusal) < 500
    if file is None:
        return False
    assert len(dict(file.metadata)) == len(file.metadata)
    assert sum(file.data(name).nbytes for name in file.tensors) <= len(content)
    return True


def boundaries(content: bytes) -> list[int]:
    """Byte positions between any two fields, from an independent walk over the file."""
    at, found = 24, [0, 4, 8, 16]
    n_tensors, n_pairs = struct.unpack_from("<QQ", content, 8)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def move(n_bytes: int) -> None:
        nonlocal at
        found.append(at)
        at += n_bytes

    def string() -> None:
        (n_bytes,) = struct.unpack_from("<Q", content, at)
        move(8)
        move(n_bytes)

    for _ in range(n_pairs):
        string()
        kind, element, count = struct.unpack_from("<IIQ", content, at)
        move(4)
        if kind == raw.ARRAY:
            move(4)
            move(8)
            kind = element
        else:
            count = 1
        for _ in range(count):
            string() if kind == raw.STRING else move(sizes[kind])
    for _ in range(n_tensors):
        string()
        (n_dims,) = struct.unpack_from("<I", content, at)
        for n_bytes in (4, *[8] * n_dims, 4, 8):
            move(n_bytes)
    return [*found, at]


def test_cut_at_every_boundary_is_refused(tiny: bytes, tmp_path: Path) -> None:
    """Before, at and after each field of the first and last of everything; data cuts too."""
    at = boundaries(tiny)
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(tiny)
    assert -(-at[-1] // 32) * 32 == gguf.GGUFReader(whole).data_offset
    edges = {*at[:60], *at[60:-40:80], *at[-40:], len(tiny) - 32, len(tiny) // 2}
    cuts = {max(0, edge + shift) for edge, shift in itertools.product(edges, (-1, 0, 1))}
    assert len(cuts) > 250
    assert [cut for cut in sorted(cuts) if attempt(tmp_path, tiny[:cut])] == []
    assert attempt(tmp_path, tiny)


def test_no_field_may_claim_more_than_there_is(tiny: bytes, tmp_path: Path) -> None:
    """Every length, count, dimension and offset replaced by extreme values."""
    at = boundaries(tiny)
    fields = [a for a, b in itertools.pairwise(at) if b - a in (4, 8)]
    chosen = [*fields[:30], *fields[30:-40:80], *fields[-40:]]
    opened = 0
    for place, value in itertools.product(chosen, EXTREMES):
        mutant = bytearray(tiny)
        n_bytes = 8 if value >= 1 << 32 else 4
        mutant[place : place + n_bytes] = value.to_bytes(n_bytes, "little")
        opened += attempt(tmp_path, bytes(mutant))
    # Numbers that are plain values may take any: those files open.
    assert 0 < opened < len(chosen) * len(EXTREMES) // 2


@budget
@given(data=st.data())
def test_flipped_bits(data: st.DataObject, tiny: bytes, tmp_path: Path) -> None:
    mutant = bytearray(tiny)
    end = boundaries(tiny)[-1]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, end - 1))
        mutant[place] ^= 1 << data.draw(st.integers(0, 7))
    attempt(tmp_path, bytes(mutant))


@budget
@given(data=st.data())
def test_moved_doubled_and_removed_pieces(data: st.DataObject, tiny: bytes, tmp_path: Path) -> None:
    at = boundaries(tiny)
    first = data.draw(st.integers(0, len(at) - 2))
    last = data.draw(st.integers(first + 1, min(first + 40, len(at) - 1)))
    piece = tiny[at[first] : at[last]]
    where = at[data.draw(st.integers(0, len(at) - 1))]
    if data.draw(st.booleans()):
        mutant = tiny[:where] + piece + tiny[where:]
    else:
        mutant = tiny[: at[first]] + tiny[at[last] :]
    attempt(tmp_path, mutant)


lengths = st.one_of(st.integers(0, 70), st.sampled_from(EXTREMES))
payloads = st.binary(max_size=40)
pairs = st.builds(
    lambda key, kind, value: raw.pair(key, kind, value),
    st.sampled_from(["a", "b", "general.alignment", "split.count", "general.architecture"]),
    st.integers(0, 13),
    st.one_of(
        payloads,
        st.integers(0, (1 << 32) - 1).map(lambda n: struct.pack("<I", n)),
        st.text(max_size=9).map(raw.text),
        st.builds(raw.array, st.integers(0, 13), lengths, payloads),
    ),
)
records = st.builds(
    raw.record,
    st.sampled_from(["v", "w", "x" * 63, ""]),
    st.lists(lengths, max_size=5).map(tuple),
    st.integers(0, 45),
    st.one_of(st.integers(0, 8).map(lambda n: 32 * n), lengths),
)
files = st.builds(
    raw.Raw,
    pairs=st.lists(pairs, max_size=4).map(lambda more: (raw.ARCH, *more)),
    records=st.lists(records, max_size=3).map(tuple),
    data=st.integers(0, 700).map(bytes),
    n_tensors=st.one_of(st.none(), lengths),
    n_pairs=st.one_of(st.none(), lengths),
)


@budget
@given(file=files)
def test_files_of_plausible_parts(file: raw.Raw, tmp_path: Path) -> None:
    attempt(tmp_path, file.bytes())


@budget
@given(content=st.binary(max_size=300))
def test_noise_behind_a_good_magic(content: bytes, tmp_path: Path) -> None:
    attempt(tmp_path, b"GGUF\x03\0\0\0" + content)
