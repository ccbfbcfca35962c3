"""Every rule of the reader has a file that breaks it, and says so by name."""

import os
import re
import struct
from pathlib import Path

import pytest
from gguf_bytes import ARCH, ARRAY, BOOL, STRING, U8, U32, Raw, array, pair, record, text

from retrograd.errors import GgufError
from retrograd.gguf import limits, open_gguf

HUGE = (1 << 64) - 1
ROW = record("w", (32,), 0, 0)
DATA = bytes(128)


def u32(key: str, value: int) -> bytes:
    return pair(key, U32, struct.pack("<I", value))


def one(row: bytes, data: bytes = DATA) -> Raw:
    return Raw(records=(row,), data=data)


def with_pair(*pairs: bytes) -> Raw:
    return Raw(pairs=(ARCH, *pairs))


# name -> (file, words the message must hold)
HOSTILE: dict[str, tuple[Raw | bytes, str]] = {
    "empty": (b"", "at least 24 bytes; got 0"),
    "magic alone": (b"GGUF", "at least 24 bytes; got 4"),
    "other magic": (Raw(magic=b"ggjt"), "starts with b'GGUF'; got b'ggjt' at byte 0"),
    "git-lfs pointer": (b"version https://git-lfs.github.com/spec/v1\n", "starts with b'GGUF'"),
    "big-endian": (Raw(version=struct.pack(">I", 3)), "little-endian; got a big-endian file"),
    "swapped magic": (Raw(magic=b"FUGG"), "little-endian; got a big-endian file"),
    "version 1": (Raw(version=struct.pack("<I", 1)), "version is 2 or 3; got 1 at byte 4"),
    "version 4": (Raw(version=struct.pack("<I", 4)), "version is 2 or 3; got 4"),
    "version 0": (Raw(version=bytes(4)), "version is 2 or 3; got 0"),
    "tensor count": (Raw(n_tensors=HUGE), f"at most {limits.MAX_TENSORS} tensors; got {HUGE}"),
    "tensor count beyond the file": (Raw(n_tensors=9), "holds all bytes of 9 tensor records"),
    "key count": (Raw(n_pairs=HUGE), f"at most {limits.MAX_KEYS} metadata keys; got {HUGE}"),
    "key count beyond the file": (Raw(n_pairs=16_000), "holds all bytes of 16000 metadata pairs"),
    "key length": (
        with_pair(struct.pack("<Q", HUGE) + bytes(32)),
        f"a metadata key has at most 1024 bytes; got {HUGE}",
    ),
    "key length beyond the file": (
        with_pair(struct.pack("<Q", 1000) + bytes(32)),
        "holds all bytes of a metadata key",
    ),
    "empty key": (with_pair(u32("", 1)), "a metadata key has at least one byte"),
    "doubled key": (with_pair(u32("a", 1), u32("a", 2)), "key occurs once; got 'a'"),
    "key not UTF-8": (with_pair(pair(b"a\xff", U8, b"1")), "key is UTF-8; got byte 0xff"),
    "value not UTF-8": (
        with_pair(pair("a", STRING, text(b"\xc3("))),
        "value of 'a' is UTF-8; got byte 0xc3",
    ),
    "key of 1024 bytes": (with_pair(pair("k" * 1024, 13, bytes(8))), "kkk... has a known type"),
    "value type": (with_pair(pair("a", 13, bytes(8))), "'a' has a known type"),
    "nested array": (
        with_pair(pair("a", ARRAY, array(ARRAY, 1, bytes(16)))),
        "'a' has a known type (0 to 12, arrays not nested); got type 9",
    ),
    "bool of 2": (with_pair(pair("a", BOOL, b"\x02")), "a bool in 'a' is 0 or 1; got 2"),
    "bool array of 7": (
        with_pair(pair("a", ARRAY, array(BOOL, 3, b"\x00\x01\x07"))),
        "a bool in 'a' is 0 or 1; got 7",
    ),
    "string length": (
        with_pair(pair("a", STRING, struct.pack("<Q", HUGE) + bytes(9))),
        f"value of 'a' has at most {limits.MAX_STRING_BYTES} bytes; got {HUGE}",
    ),
    "array count": (
        with_pair(pair("a", ARRAY, array(U32, HUGE, bytes(9)))),
        "holds all bytes of value of 'a'",
    ),
    "string array count": (
        with_pair(pair("a", ARRAY, array(STRING, HUGE, bytes(9)))),
        f"at most {limits.MAX_ARRAY_STRINGS} strings together; got {HUGE}",
    ),
    "string array count beyond the file": (
        with_pair(pair("a", ARRAY, array(STRING, 1_000_000, bytes(9)))),
        "holds all bytes of array 'a'",
    ),
    "string in array too long": (
        with_pair(pair("a", ARRAY, array(STRING, 1, struct.pack("<Q", HUGE)))),
        f"string in array 'a' has at most {limits.MAX_STRING_BYTES} bytes",
    ),
    "string in array cut": (
        with_pair(pair("a", ARRAY, array(STRING, 2, text("b") + struct.pack("<Q", 999)))),
        "holds all bytes of string in array 'a'",
    ),
    "string in array not UTF-8": (
        with_pair(pair("a", ARRAY, array(STRING, 2, text("b") + text(b"\x80")))),
        "string in array 'a' is UTF-8; got byte 0x80",
    ),
    "no architecture": (Raw(pairs=()), "holds the key 'general.architecture'"),
    "architecture empty": (
        Raw(pairs=(pair("general.architecture", STRING, text("")),)),
        "'general.architecture' names an architecture",
    ),
    "architecture a number": (
        Raw(pairs=(u32("general.architecture", 3),)),
        "'general.architecture' is of type str; got int 3",
    ),
    "alignment 0": (with_pair(u32("general.alignment", 0)), "is a power of two from 8"),
    "alignment 48": (with_pair(u32("general.alignment", 48)), "is a power of two from 8"),
    "alignment 2^31": (with_pair(u32("general.alignment", 1 << 31)), "to 65536; got 2147483648"),
    "alignment a string": (
        with_pair(pair("general.alignment", STRING, text("32"))),
        "'general.alignment' is of type int; got str '32'",
    ),
    "split": (with_pair(u32("split.count", 3)), "one file, not split; got part of 3"),
    "split count a string": (
        with_pair(pair("split.count", STRING, text("3"))),
        "'split.count' is of type int",
    ),
    "name length": (
        one(text("n" * 64) + bytes(64)),
        "a tensor name has at most 63 bytes; got 64",
    ),
    "name empty": (one(record("", (32,), 0, 0)), "a tensor name has at least one byte"),
    "name not UTF-8": (one(record(b"\xfe", (32,), 0, 0)), "tensor name is UTF-8; got byte 0xfe"),
    "name doubled": (
        Raw(records=(ROW, record("w", (32,), 0, 128)), data=bytes(256)),
        "a tensor name occurs once; got 'w'",
    ),
    "no dimension": (one(record("w", (), 0, 0) + bytes(8)), "'w' has 1 to 4 dimensions; got 0"),
    "five dimensions": (one(record("w", (1,) * 5, 0, 0)), "'w' has 1 to 4 dimensions; got 5"),
    "dimension 0": (one(record("w", (32, 0), 0, 0)), "dimension of 'w' is at least 1; got [32, 0]"),
    "product overflow": (
        one(record("w", (1 << 32, 1 << 32), 0, 0)),
        f"multiply to at most {limits.MAX_ELEMENTS}",
    ),
    "product overflow to 0 in 64 bits": (
        one(record("w", (1 << 22, 1 << 21, 1 << 21, 1), 0, 0)),
        f"multiply to at most {limits.MAX_ELEMENTS}",
    ),
    "tensor type": (one(record("w", (32,), 99, 0)), "'w' has a known type"),
    "tensor type of a removed layout": (one(record("w", (32,), 4, 0)), "got type 4 at byte"),
    "block": (one(record("w", (33,), 8, 0)), "whole q8_0 blocks of 32 elements; got rows of 33"),
    "block of 256": (one(record("w", (128,), 12, 0)), "whole q4_k blocks of 256 elements"),
    "offset odd": (one(record("w", (8,), 0, 4)), "'w' starts at a multiple of 32 bytes"),
    "offset past the end": (one(record("w", (8,), 0, 1 << 40)), "'w' lies inside the file"),
    "offset wraps": (one(record("w", (8,), 0, HUGE - 31)), "'w' lies inside the file"),
    "data cut": (one(ROW, bytes(127)), "'w' lies inside the file"),
    "size past the end": (one(record("w", (1 << 40,), 0, 0)), "'w' lies inside the file"),
    "overlap": (
        Raw(records=(ROW, record("v", (32,), 0, 96)), data=bytes(256)),
        "'w' and 'v' share no bytes; got",
    ),
    "same place": (
        Raw(records=(record("v", (8,), 0, 0), record("w", (8,), 0, 0)), data=DATA),
        "'v' and 'w' share no bytes",
    ),
    "quantization version": (
        Raw(
            pairs=(ARCH, u32("general.quantization_version", 1)),
            records=(record("w", (32,), 8, 0),),
            data=bytes(64),
        ),
        "'general.quantization_version' is 2 where tensors are quantized; got 1",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_is_refused_by_its_rule(name: str, tmp_path: Path) -> None:
    raw, words = HOSTILE[name]
    path = tmp_path / "hostile.gguf"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.bytes())
    with pytest.raises(GgufError) as refusal:
        open_gguf(path)
    message = str(refusal.value)
    assert words in message
    assert re.fullmatch(r"\[gguf\] .+; got .+; .+", message), message
    assert len(message) < 400
    assert refusal.value.exit_code == 2


def test_the_smallest_good_files_open(tmp_path: Path) -> None:
    """The battery breaks files that are otherwise good."""
    path = tmp_path / "good.gguf"
    path.write_bytes(Raw().bytes())
    assert list(open_gguf(path).tensors) == []
    path.write_bytes(one(ROW).bytes())
    assert open_gguf(path).tensors["w"].n_bytes == 128
    path.write_bytes(Raw(version=struct.pack("<I", 2)).bytes())
    assert open_gguf(path).version == 2
    path.write_bytes(with_pair(u32("split.count", 1)).bytes())
    assert open_gguf(path).metadata["split.count"] == 1


def test_part_of_a_split_is_refused_by_file_name(tmp_path: Path) -> None:
    path = tmp_path / "model-00002-of-00003.gguf"
    path.write_bytes(Raw().bytes())
    with pytest.raises(GgufError, match=r"not split; got a name of 3 parts: model-00002-of-00003"):
        open_gguf(path)
    whole = path.rename(tmp_path / "model-00001-of-00001.gguf")
    assert open_gguf(whole).version == 3


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"can be read; got .*No such file"):
        open_gguf(tmp_path / "missing.gguf")
    with pytest.raises(GgufError, match=r"a model is a regular file; got "):
        open_gguf(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(GgufError, match=r"a model is a regular file; got "):
        open_gguf(tmp_path / "pipe.gguf")
    with pytest.raises(GgufError, match=r"a path is text without NUL"):
        open_gguf("a\0b")


def test_oversized_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse file that really has the bytes its header claims."""
    path = tmp_path / "sparse.gguf"
    head = with_pair(pair("a", ARRAY, array(U8, 1 << 33, b"")))
    path.write_bytes(head.bytes())
    os.truncate(path, 1 << 34)
    with pytest.raises(GgufError, match=r"together take at most 50331648 bytes"):
        open_gguf(path)
