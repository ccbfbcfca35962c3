"""The key-value section: validated when the file is opened, decoded when a key is asked for."""

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from retrograd.errors import GgufError
from retrograd.gguf import limits
from retrograd.gguf.cursor import Cursor, shown

Scalar = str | int | float | bool
MetadataValue = Scalar | list[str] | list[int] | list[float] | list[bool]
T = TypeVar("T", str, int, float, bool)

STRING, ARRAY, BOOL, U32 = 8, 9, 7, 4
# Value type number -> numpy type of one element, as the GGUF specification numbers them.
NUMBERS: Mapping[int, np.dtype[np.generic]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    U32: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    BOOL: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}


@dataclass(frozen=True)
class Entry:
    """Where one value lies: `count` elements of value type `kind` from byte `start` on."""

    kind: int
    count: int
    start: int
    is_array: bool


class Metadata(Mapping[str, MetadataValue]):
    """Metadata of a mapped file in file order. A value is decoded anew at each access."""

    def __init__(self, data: mmap.mmap, entries: dict[str, Entry]) -> None:
        self._data = data
        self._entries = entries

    def __getitem__(self, key: str) -> MetadataValue:
        entry = self._entries[key]
        if entry.kind == STRING:
            strings = self._strings(entry)
            return strings if entry.is_array else strings[0]
        dtype = NUMBERS[entry.kind]
        values = np.frombuffer(self._data, dtype, entry.count, entry.start).tolist()
        return cast("MetadataValue", values if entry.is_array else values[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, key: str) -> int:
        """Number of elements of an array (1 for a scalar), without decoding it."""
        return self._entries[key].count

    def _strings(self, entry: Entry) -> list[str]:
        data, at = self._data, entry.start
        length_at = struct.Struct("<Q").unpack_from
        strings: list[str] = []
        for _ in range(entry.count):
            stop = at + 8 + length_at(data, at)[0]
            strings.append(data[at + 8 : stop].decode("utf-8"))
            at = stop
        return strings


def read_metadata(cursor: Cursor, count: int) -> Metadata:
    """Check `count` key-value pairs at the cursor and remember where each value lies.

    Raises:
        GgufError: a key is empty, too long, doubled or not UTF-8, or a value has a type or size
            that cannot be.
    """
    if count > limits.MAX_KEYS:
        raise cursor.error(f"a file has at most {limits.MAX_KEYS} metadata keys", count)
    # The shortest pair: key length, one byte of key, value type, one byte of value.
    cursor.need(14 * count, f"{count} metadata pairs")
    entries: dict[str, Entry] = {}
    for _ in range(count):
        start = cursor.at
        key = cursor.string("a metadata key", limits.MAX_KEY_BYTES)
        if not key or key in entries:
            cursor.at = start
            rule = "a metadata key occurs once" if key else "a metadata key has at least one byte"
            raise cursor.error(rule, shown(key), "remove the key and write the file again")
        entries[key] = _read_entry(cursor, key)
    return Metadata(cursor.data, entries)


def _read_entry(cursor: Cursor, key: str) -> Entry:
    name = shown(key)
    kind = cursor.u32(f"value type of {name}")
    is_array = kind == ARRAY
    count = 1
    if is_array:
        kind = cursor.u32(f"element type of {name}")
        count = cursor.u64(f"element count of {name}")
    start = cursor.at
    if kind == STRING:
        if is_array:
            cursor.skip_strings(count, f"array {name}")
        else:
            cursor.string(f"value of {name}", limits.MAX_STRING_BYTES)
    elif kind in NUMBERS:
        cursor.skip(count * NUMBERS[kind].itemsize, f"value of {name}")
        if kind == BOOL:
            _check_bools(cursor, start, count, name)
    else:
        rule = f"the value of {name} has a known type (0 to 12, arrays not nested)"
        raise cursor.error(rule, f"type {kind}", "remove the key and write the file again")
    return Entry(kind, count, start, is_array)


def _check_bools(cursor: Cursor, start: int, count: int, name: str) -> None:
    stored = np.frombuffer(cursor.data, np.uint8, count, start)
    if count and stored.max() > 1:
        first = int((stored > 1).argmax())
        cursor.at = start + first
        raise cursor.error(f"a bool in {name} is 0 or 1", int(stored[first]))


def require(metadata: Mapping[str, MetadataValue], key: str, kind: type[T]) -> T:
    """The value of `key`, which must exist and have the given type.

    An integer is taken where a float is asked for; a bool is never taken for an integer.

    Raises:
        GgufError: the key is missing or has another type.
    """
    value = _present(metadata, key)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise _mistyped(key, kind.__name__, value)
    return cast("T", value)


def require_list(metadata: Mapping[str, MetadataValue], key: str, kind: type[T]) -> list[T]:
    """The array under `key`, whose elements must have the given type.

    Raises:
        GgufError: the key is missing, is not an array or has elements of another type.
    """
    value = _present(metadata, key)
    # One element stands for all: a GGUF array has one element type.
    if not isinstance(value, list) or (value and type(value[0]) is not kind):
        raise _mistyped(key, f"array of {kind.__name__}", value)
    return cast("list[T]", value)


def _present(metadata: Mapping[str, MetadataValue], key: str) -> MetadataValue:
    value = metadata.get(key)
    if value is None:
        remedy = "convert the model again with a converter that writes it"
        raise GgufError("gguf", f"metadata holds the key {key!r}", "no such key", remedy)
    return value


def _mistyped(key: str, wanted: str, value: MetadataValue) -> GgufError:
    what = shown(value) if not isinstance(value, list) else f"of {len(value)} elements"
    got = f"{type(value).__name__} {what}"
    return GgufError(
        "gguf", f"metadata key {key!r} is of type {wanted}", got, "convert the model again"
    )
