"""Written files read back, here and in the gguf package; nothing is left half written."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from fixtures.tiny import FAMILY, write
from retrograd.errors import GgufError
from retrograd.gguf import MetadataValue, TensorData, open_gguf, replace_file, write_gguf

METADATA: dict[str, MetadataValue] = {
    "general.architecture": "llama",
    "a.bool": True,
    "a.int": 2**32 - 1,
    "a.float": 0.1,
    "a.text": "Ġ𝄞",
    "a.texts": ["", "b"],
    "a.ints": [-1, 2**31 - 1],
    "a.floats": [0.5, -0.25],
    "a.bools": [True, False],
}


def tensor(name: str, *shape: int) -> TensorData:
    return TensorData.f32(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    tensors = [tensor("x", 3), tensor("y", 5, 7), tensor("z", 2, 3, 4)]
    write_gguf(path, metadata=METADATA, tensors=tensors)
    file, theirs = open_gguf(path), gguf.GGUFReader(path)
    expected = METADATA | {"a.float": float(np.float32(0.1))}
    assert dict(file.metadata) == expected
    assert {k: theirs.fields[k].contents() for k in METADATA} == expected
    for t, other in zip(tensors, theirs.tensors, strict=True):
        assert np.array_equal(file.dequantize(t.name), t.data.view(np.float32).reshape(t.shape))
        assert np.array_equal(np.asarray(other.data), file.dequantize(t.name))
    assert path.stat().st_size % 32 == 0


def test_bytes_depend_on_the_arguments_alone(tmp_path: Path) -> None:
    made = [write(FAMILY[0], tmp_path / folder).read_bytes() for folder in ("a", "b")]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2**32, r"'k' fits its 32-bit type"),
        (-1, r"'k' fits its 32-bit type"),
        (1e39, r"'k' fits its 32-bit type"),
        ([2**31], r"'k' fits its 32-bit type"),
        ([], r"'k' holds elements of one type; got no element"),
        ([1, "a"], r"'k' holds elements of one type; got int, str"),
        ([1, True], r"'k' holds elements of one type; got bool, int"),
    ],
)
def test_values_without_a_type_are_refused(
    value: MetadataValue, words: str, tmp_path: Path
) -> None:
    with pytest.raises(GgufError, match=words):
        write_gguf(tmp_path / "a.gguf", metadata={"k": value}, tensors=[])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (TensorData("w", (4,), "q4_9", np.zeros(4, np.uint8)), r"'w' is written in one of f32"),
        (TensorData("w", (4,), "f32", np.zeros(4, np.uint8)), r"shape \(4,\) fills its f32 blocks"),
        (TensorData("w", (), "f32", np.zeros(4, np.uint8)), r"shape \(\) fills its f32 blocks"),
        (TensorData("w", (2, 16), "q8_0", np.zeros(34, np.uint8)), r"fills its q8_0 blocks"),
    ],
)
def test_tensors_that_contradict_their_format_are_refused(
    bad: TensorData, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    with pytest.raises(GgufError, match=words):
        write_gguf(path, metadata=METADATA, tensors=[bad])
    assert not path.exists()


def test_doubled_tensor_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"a tensor name occurs once; got 'x'"):
        write_gguf(tmp_path / "a.gguf", metadata=METADATA, tensors=[tensor("x", 3)] * 2)


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"old")

    def fail() -> None:
        with replace_file(path) as fresh:
            fresh.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with replace_file(path) as fresh:
        fresh.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        replace_file(tmp_path / "no" / "a.gguf"),
    ):
        pass
