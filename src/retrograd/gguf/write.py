"""Writing GGUF files: version 3, little-endian, whole or not at all."""

import errno
import math
import os
import secrets
import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from retrograd.errors import GgufError
from retrograd.formats import FORMATS
from retrograd.gguf.metadata import ARRAY, BOOL, STRING, U32, MetadataValue

_I32, _F32 = 5, 6
_ALIGNMENT = 32


@dataclass(frozen=True)
class TensorData:
    """A tensor to write.

    Args:
        name: its name in the file.
        shape: in numpy order, a weight is (out, in).
        format: name of its storage format.
        data: its stored bytes, shape (n_bytes,), C-contiguous.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    data: npt.NDArray[np.uint8]

    @classmethod
    def f32(cls, name: str, values: npt.NDArray[np.float32]) -> "TensorData":
        """A tensor kept as f32."""
        stored = np.ascontiguousarray(values, dtype="<f4").reshape(-1).view(np.uint8)
        return cls(name, values.shape, "f32", stored)


@contextmanager
def replace_file(path: Path) -> Generator[Path, None, None]:
    """A new file beside `path` to write to, renamed to `path` when the block ends well.

    The content reaches the disk before the name does. When the block raises, the new file is
    removed and whatever was at `path` stays as it was.

    Raises:
        OSError: the folder does not exist or cannot be written, or `path` is no regular file: a
            device such as /dev/null is not replaced.
    """
    _require_replaceable(path)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # Exclusive creation with the user's own umask; the block may reopen it by name.
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield fresh
        _sync(fresh)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _require_replaceable(path: Path) -> None:
    if not path.name or "\0" in str(path):
        raise OSError(errno.EINVAL, "a file name has at least one character and no NUL")
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "neither a regular file nor a free name")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_gguf(
    path: Path, *, metadata: Mapping[str, MetadataValue], tensors: Sequence[TensorData]
) -> None:
    """Write one GGUF file in place; wrap it in `replace_file` to keep an old one until it is whole.

    The bytes depend on the arguments alone. Integers are stored as u32, in arrays as i32; floats as
    f32; order is kept. Tensors start at multiples of 32 bytes.

    Raises:
        GgufError: a value has no GGUF type or does not fit it, or a tensor's bytes, name or shape
            contradict its format.
    """
    _check_tensors(tensors)
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
        for key, value in metadata.items():
            file.write(_string(key) + _typed(key, value))
        offset = 0
        for t in tensors:
            dimensions = struct.pack(f"<{len(t.shape)}Q", *reversed(t.shape))
            file.write(_string(t.name) + struct.pack("<I", len(t.shape)) + dimensions)
            file.write(struct.pack("<IQ", FORMATS[t.format].ggml_type, offset))
            offset += -(-t.data.nbytes // _ALIGNMENT) * _ALIGNMENT
        for t in tensors:
            _pad(file)
            file.write(t.data.data)
        _pad(file)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % _ALIGNMENT))


def _check_tensors(tensors: Sequence[TensorData]) -> None:
    seen: set[str] = set()
    for t in tensors:
        row = FORMATS.get(t.format)
        if row is None:
            rule = f"tensor {t.name!r} is written in one of {', '.join(FORMATS)}"
            raise GgufError("gguf", rule, t.format, "choose a listed format")
        whole = bool(t.shape) and t.shape[-1] % row.block_elements == 0
        if not whole or row.n_bytes(math.prod(t.shape)) != t.data.nbytes:
            rule = f"tensor {t.name!r} of shape {t.shape} fills its {t.format} blocks"
            raise GgufError("gguf", rule, f"{t.data.nbytes} bytes", "encode the tensor again")
        if t.name in seen:
            raise GgufError("gguf", "a tensor name occurs once", repr(t.name), "rename one of them")
        seen.add(t.name)


def _string(text: str) -> bytes:
    stored = text.encode("utf-8")
    return struct.pack("<Q", len(stored)) + stored


def _typed(key: str, value: MetadataValue) -> bytes:
    if isinstance(value, list):
        kind, body = _array(key, value)
        return struct.pack("<IIQ", ARRAY, kind, len(value)) + body
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<I", U32) + _packed(key, "I", [value])
    if isinstance(value, float):
        return struct.pack("<I", _F32) + _packed(key, "f", [value])
    return struct.pack("<I", STRING) + _string(value)


def _array(key: str, values: Sequence[str | int | float | bool]) -> tuple[int, bytes]:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return STRING, b"".join(_string(str(value)) for value in values)
    if kinds == {bool}:
        return BOOL, bytes(int(value) for value in values)
    if kinds == {int}:
        return _I32, _packed(key, "i", values)
    if kinds == {float}:
        return _F32, _packed(key, "f", values)
    names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "no element"
    rule = f"the array of metadata key {key!r} holds elements of one type"
    raise GgufError("gguf", rule, names, "leave the key out or make the types equal")


def _packed(key: str, code: str, values: Sequence[str | int | float | bool]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except (struct.error, OverflowError) as broken:
        rule = f"the value of metadata key {key!r} fits its 32-bit type"
        raise GgufError("gguf", rule, broken, "store it as text") from broken
