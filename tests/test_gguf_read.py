"""Reading agrees with the gguf package: every member of the tiny family, every value type."""

import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_bytes import ARCH, ARRAY, STRING, Raw, array, pair, record, text

from fixtures.tiny import FAMILY, Recipe, write
from retrograd.errors import GgufError
from retrograd.gguf import GgufFile, open_gguf


@pytest.mark.parametrize("made", FAMILY, ids=lambda r: r.name)
def test_reading_agrees_with_the_gguf_package(made: Recipe, tmp_path: Path) -> None:
    path = write(made, tmp_path)
    ours, theirs = open_gguf(path), gguf.GGUFReader(path)
    assert list(ours.tensors) == [t.name for t in theirs.tensors]
    for t in theirs.tensors:
        info = ours.tensors[t.name]
        assert info.format == t.tensor_type.name.lower()
        assert info.shape == tuple(int(d) for d in reversed(t.shape))
        assert (info.offset, info.n_bytes) == (t.data_offset, t.n_bytes)
        assert info.n_elements == t.n_elements
        assert np.array_equal(ours.data(t.name), t.data.reshape(-1).view(np.uint8))
        expected = gguf.quants.dequantize(t.data, t.tensor_type)
        values = ours.dequantize(t.name)
        assert values.dtype == np.float32
        assert values.shape == info.shape
        assert np.array_equal(values.view(np.uint32), expected.reshape(info.shape).view(np.uint32))
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert dict(ours.metadata) == fields
    assert list(ours.metadata) == list(fields)


SCALARS = {
    0: ("<B", 255),
    1: ("<b", -128),
    2: ("<H", 65_535),
    3: ("<h", -32_768),
    4: ("<I", 2**32 - 1),
    5: ("<i", -(2**31)),
    6: ("<f", 0.5),
    7: ("<B", True),
    10: ("<Q", 2**64 - 1),
    11: ("<q", -(2**63)),
    12: ("<d", 1e300),
}


def opened(tmp_path: Path, *pairs: bytes) -> GgufFile:
    path = tmp_path / "values.gguf"
    path.write_bytes(Raw(pairs=(ARCH, *pairs)).bytes())
    return open_gguf(path)


@pytest.mark.parametrize("kind", SCALARS)
def test_every_value_type_keeps_its_value_and_python_type(kind: int, tmp_path: Path) -> None:
    code, value = SCALARS[kind]
    stored = struct.pack(code, value)
    pairs = pair("one", kind, stored), pair("three", ARRAY, array(kind, 3, stored * 3))
    metadata = opened(tmp_path, *pairs, pair("none", ARRAY, array(kind, 0, b""))).metadata
    assert metadata["one"] == value
    assert type(metadata["one"]) is type(value)
    assert metadata["three"] == [value] * 3
    assert metadata["none"] == []
    assert metadata.count("three") == 3


def test_strings_keep_every_character(tmp_path: Path) -> None:
    words = ["", "a", "Ġthe", "\0", "\n", "𝄞", "é" * 500]
    body = b"".join(text(w) for w in words)
    metadata = opened(tmp_path, pair("words", ARRAY, array(STRING, len(words), body))).metadata
    assert metadata["words"] == words
    assert "missing" not in metadata
    assert len(metadata) == 2


def test_require_names_the_key(tmp_path: Path) -> None:
    file = opened(tmp_path, pair("n", 4, struct.pack("<I", 7)), pair("b", 7, b"\1"))
    assert file.require("n", int) == 7
    assert file.require("n", float) == 7.0
    assert type(file.require("n", float)) is float
    assert file.get("n", 3) == 7
    assert file.get("absent", 3) == 3
    with pytest.raises(GgufError, match=r"holds the key 'absent'; got no such key; convert"):
        file.require("absent", int)
    with pytest.raises(GgufError, match=r"'n' is of type str; got int 7"):
        file.require("n", str)
    with pytest.raises(GgufError, match=r"'b' is of type int; got bool True"):
        file.require("b", int)
    with pytest.raises(GgufError, match=r"'n' is of type bool; got int 7"):
        file.require("n", bool)
    with pytest.raises(GgufError, match=r"'n' is of type array of int; got int 7"):
        file.require_list("n", int)
    with pytest.raises(GgufError, match=r"'b' is of type int; got bool True"):
        file.get("b", 1)


def test_lists_are_required_by_element_type(tmp_path: Path) -> None:
    file = opened(tmp_path, pair("w", ARRAY, array(STRING, 2, text("x") + text("y"))))
    assert file.require_list("w", str) == ["x", "y"]
    with pytest.raises(GgufError, match=r"'w' is of type array of int; got list of 2 elements"):
        file.require_list("w", int)


def test_known_layout_without_decoder_opens_but_is_not_decoded(tmp_path: Path) -> None:
    """A file may be inspected whatever it holds."""
    path = tmp_path / "iq4_nl.gguf"
    path.write_bytes(Raw(records=(record("w", (64, 2), 20, 0),), data=bytes(96)).bytes())
    file = open_gguf(path)
    info = file.tensors["w"]
    assert (info.format, info.shape, info.n_bytes) == ("iq4_nl", (2, 64), 72)
    with pytest.raises(GgufError, match=r"format with a decoder \(f32, .*q6_k\); got iq4_nl"):
        file.dequantize("w")


def test_missing_tensor_is_named(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"values.gguf holds the tensor 'w'; got 0 other tensors"):
        opened(tmp_path).data("w")


def test_views_are_read_only_and_digest_is_of_the_content(tmp_path: Path) -> None:
    path = write(FAMILY[0], tmp_path)
    file = open_gguf(path)
    view = file.data("token_embd.weight")
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert file.digest() == open_gguf(path).digest()
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    other = tmp_path / "other.gguf"
    other.write_bytes(changed)
    assert open_gguf(other).digest() != file.digest()


def test_a_replaced_file_leaves_the_open_map_alone(tmp_path: Path) -> None:
    path = write(FAMILY[0], tmp_path)
    file = open_gguf(path)
    before = file.digest()
    fresh = tmp_path / "fresh"
    fresh.write_bytes(b"another model")
    fresh.replace(path)
    assert file.digest() == before


def test_alignment_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "aligned.gguf"
    pairs = ARCH, pair("general.alignment", 4, struct.pack("<I", 256))
    rows = record("a", (8,), 0, 0), record("b", (8,), 0, 256)
    data = bytes(256) + np.arange(8, dtype="<f4").tobytes()
    path.write_bytes(Raw(pairs=pairs, records=rows, data=data, alignment=256).bytes())
    file = open_gguf(path)
    assert file.alignment == 256
    assert file.tensors["a"].offset % 256 == 0
    assert file.dequantize("b").tolist() == list(range(8))


def vocabulary(path: Path, n: int) -> Path:
    tokens = array(STRING, n, b"".join(text(f"token{i}") for i in range(n)))
    types = array(5, n, np.ones(n, "<i4").tobytes())
    pairs = (
        pair("tokens", ARRAY, tokens),
        pair("merges", ARRAY, tokens),
        pair("types", ARRAY, types),
    )
    path.write_bytes(Raw(pairs=(ARCH, *pairs)).bytes())
    return path


def test_large_vocabulary_opens_within_half_a_second(tmp_path: Path) -> None:
    """150,000 tokens and as many merges, in processor time."""
    n = 150_000
    path = vocabulary(tmp_path / "large.gguf", n)
    start = time.process_time()
    file = open_gguf(path)
    assert time.process_time() - start < 0.5
    values = file.require_list("tokens", str)
    assert (len(values), values[0], values[-1]) == (n, "token0", f"token{n - 1}")


def test_arrays_are_not_kept_in_memory(tmp_path: Path) -> None:
    path = vocabulary(tmp_path / "vocabulary.gguf", 20_000)
    open_gguf(path)
    tracemalloc.start()
    file = open_gguf(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert file.metadata.count("tokens") == 20_000
    assert peak_bytes < 200_000
