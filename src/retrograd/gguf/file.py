"""Opening a GGUF file: map it, check everything its header claims, then trust it."""

import hashlib
import mmap
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from retrograd.errors import GgufError
from retrograd.formats import FORMATS
from retrograd.gguf import limits
from retrograd.gguf.cursor import AGAIN, Cursor
from retrograd.gguf.metadata import Metadata, MetadataValue, T, read_metadata, require, require_list
from retrograd.gguf.tensors import TensorInfo, place_tensors, read_tensor_table

HEADER_BYTES = 24
ACCEPTED_VERSIONS = (2, 3)
_SPLIT_NAME = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_DIGEST_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class GgufFile:
    """A checked, read-only, memory-mapped GGUF file.

    Args:
        path: where it was opened.
        version: 2 or 3 (equal layouts on a little-endian file).
        alignment: every tensor starts at a multiple of this many bytes in the data section.
        metadata: key to value, in file order.
        tensors: name to place and shape, in file order.
        n_bytes: size of the file.

    The header was checked when the file was opened. The operating system shares the pages with the
    file: if another process truncates it in place, touching a lost page kills the process (SIGBUS).
    Replace model files by renaming, which leaves an open map intact.
    """

    path: Path
    version: int
    alignment: int
    metadata: Metadata
    tensors: Mapping[str, TensorInfo]
    n_bytes: int
    _map: mmap.mmap = field(repr=False, compare=False)

    def tensor(self, name: str) -> TensorInfo:
        """The record of one tensor.

        Raises:
            GgufError: the file has no tensor of that name.
        """
        info = self.tensors.get(name)
        if info is None:
            rule = f"{self.path.name} holds the tensor {name!r}"
            raise GgufError(
                "gguf", rule, f"{len(self.tensors)} other tensors", "check the architecture"
            )
        return info

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The stored bytes of a tensor, shape (n_bytes,): a read-only view, nothing is copied."""
        info = self.tensor(name)
        return np.frombuffer(self._map, np.uint8, info.n_bytes, info.offset)

    def dequantize(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor decoded to f32, in its shape.

        The numpy decoders of the `gguf` package do it: no backend library is needed, and the native
        decoders are bitwise equal to them.

        Raises:
            GgufError: no tensor of that name, or a format without a decoder.
        """
        info = self.tensor(name)
        if info.format not in FORMATS:
            rule = f"tensor {name!r} is stored in a format with a decoder ({', '.join(FORMATS)})"
            raise GgufError("gguf", rule, info.format, "convert the model to a listed format")
        from gguf.constants import GGMLQuantizationType  # here: the package takes 60 ms to import
        from gguf.quants import dequantize

        rows = self.data(name).reshape(info.n_elements // info.shape[-1], -1)
        # A scale may be infinite or NaN in a valid file; what that gives is not our business here.
        with np.errstate(all="ignore"):
            values = dequantize(rows, GGMLQuantizationType(FORMATS[info.format].ggml_type))
        return np.asarray(values, dtype=np.float32).reshape(info.shape)

    def digest(self) -> str:
        """SHA-256 of the file's content, in hexadecimal."""
        sha = hashlib.sha256()
        with memoryview(self._map) as content:
            for start in range(0, len(content), _DIGEST_CHUNK_BYTES):
                sha.update(content[start : start + _DIGEST_CHUNK_BYTES])
        return sha.hexdigest()

    def require(self, key: str, kind: type[T]) -> T:
        """The metadata value of `key`, which must exist and be of type `kind`; see `metadata`."""
        return require(self.metadata, key, kind)

    def require_list(self, key: str, kind: type[T]) -> list[T]:
        """The metadata array of `key`, which must exist and hold elements of type `kind`."""
        return require_list(self.metadata, key, kind)

    def get(self, key: str, default: T) -> T:
        """The metadata value of `key`, of the type of `default`, which is returned without one."""
        return require(self.metadata, key, type(default)) if key in self.metadata else default


def open_gguf(path: str | Path) -> GgufFile:
    """Map a GGUF file and check all that its header claims.

    Versions 2 and 3, little-endian, in one piece. Time and memory are bounded whatever the header
    says: counts are compared with the bytes that are there before anything is allocated.

    Raises:
        GgufError: the file cannot be read or breaks a rule; the message names both rule and byte.
    """
    path = _as_path(path)
    cursor = Cursor(_map(path), path.name)
    version, n_tensors, n_keys = _read_header(cursor)
    metadata = read_metadata(cursor, n_keys)
    _refuse_split(path, metadata)
    alignment = _alignment(metadata)
    if not require(metadata, "general.architecture", str):
        rule = "'general.architecture' names an architecture"
        raise GgufError("gguf", rule, "an empty string", "convert the model again")
    table = read_tensor_table(cursor, n_tensors)
    tensors = place_tensors(
        table,
        data_start=-(-cursor.at // alignment) * alignment,
        alignment=alignment,
        file_bytes=len(cursor.data),
        file_name=path.name,
    )
    _check_quantization_version(metadata, tensors)
    view = MappingProxyType(tensors)
    return GgufFile(path, version, alignment, metadata, view, len(cursor.data), cursor.data)


def _as_path(given: object) -> Path:
    if not isinstance(given, str | Path):
        remedy = "give the path of a .gguf file"
        raise GgufError("gguf", "a model is given by its path", type(given).__name__, remedy)
    return Path(given)


def _map(path: Path) -> mmap.mmap:
    try:
        # Looked at before it is opened: opening a pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise GgufError(
                "gguf", "a model is a regular file", path, "give the path of a .gguf file"
            )
        with path.open("rb") as file:
            n_bytes = file.seek(0, 2)
            if n_bytes < HEADER_BYTES:
                rule = f"a GGUF file has at least {HEADER_BYTES} bytes"
                raise GgufError("gguf", rule, f"{n_bytes} in {path.name}", AGAIN)
            return mmap.mmap(file.fileno(), n_bytes, access=mmap.ACCESS_READ)
    except OSError as broken:
        rule = "the model file can be read"
        raise GgufError("gguf", rule, f"{path}: {broken.strerror}", "check the path") from broken
    except ValueError as broken:
        raise GgufError(
            "gguf", "a path is text without NUL", repr(str(path)), "check it"
        ) from broken


def _read_header(cursor: Cursor) -> tuple[int, int, int]:
    """Version, tensor count and key count, from the 24 bytes that open the file."""
    from gguf.constants import GGUF_MAGIC  # here: the package takes 60 ms to import

    magic = cursor.u32("magic")
    version = cursor.u32("version")
    cursor.at = 0
    stored = magic.to_bytes(4, "little")
    swapped = int.from_bytes(GGUF_MAGIC.to_bytes(4, "big"), "little")
    if magic == swapped or (magic == GGUF_MAGIC and version & 0xFFFF == 0 and version):
        rule = "the file is little-endian"
        raise cursor.error(rule, "a big-endian file", "convert the model again as little-endian")
    if magic != GGUF_MAGIC:
        remedy = "give the path of a .gguf file, or convert the model to GGUF"
        raise cursor.error("a GGUF file starts with b'GGUF'", stored, remedy)
    cursor.at = 4
    if version not in ACCEPTED_VERSIONS:
        raise cursor.error("the GGUF version is 2 or 3", version, "convert the model again")
    cursor.at = 8
    n_tensors = cursor.u64("tensor count")
    n_keys = cursor.u64("key count")
    if n_tensors > limits.MAX_TENSORS:
        cursor.at = 8
        raise cursor.error(f"a file has at most {limits.MAX_TENSORS} tensors", n_tensors)
    return version, n_tensors, n_keys


def _refuse_split(path: Path, metadata: Mapping[str, MetadataValue]) -> None:
    remedy = "merge the parts into one file with llama-gguf-split --merge"
    if "split.count" in metadata:
        count = require(metadata, "split.count", int)
        if count > 1:
            got = f"part of {count} ('split.count') in {path.name}"
            raise GgufError("gguf", "a model is one file, not split", got, remedy)
    named = _SPLIT_NAME.search(path.name)
    if named and int(named[1]) > 1:
        got = f"a name of {int(named[1])} parts: {path.name}"
        raise GgufError("gguf", "a model is one file, not split", got, remedy)


def _alignment(metadata: Metadata) -> int:
    from gguf.constants import GGUF_DEFAULT_ALIGNMENT, Keys

    if Keys.General.ALIGNMENT not in metadata:
        return GGUF_DEFAULT_ALIGNMENT
    value = require(metadata, Keys.General.ALIGNMENT, int)
    low, high = limits.MIN_ALIGNMENT, limits.MAX_ALIGNMENT
    if not low <= value <= high or value & (value - 1):
        rule = f"'{Keys.General.ALIGNMENT}' is a power of two from {low} to {high}"
        raise GgufError("gguf", rule, value, "convert the model again")
    return value


def _check_quantization_version(metadata: Metadata, tensors: Mapping[str, TensorInfo]) -> None:
    """Block layouts changed with this version; files without the key are taken as current."""
    from gguf.constants import GGML_QUANT_VERSION, Keys

    key = Keys.General.QUANTIZATION_VERSION
    plain = {row.name for row in FORMATS.values() if row.block_elements == 1}
    if key not in metadata or all(t.format in plain for t in tensors.values()):
        return
    value = require(metadata, key, int)
    if value != GGML_QUANT_VERSION:
        rule = f"'{key}' is {GGML_QUANT_VERSION} where tensors are quantized"
        raise GgufError("gguf", rule, value, "quantize the model again with a current tool")
