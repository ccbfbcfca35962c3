"""Bounded little-endian reads: no byte is used before it is known to exist."""

import mmap
import struct
from collections.abc import Callable

from retrograd.errors import GgufError
from retrograd.gguf import limits

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
AGAIN = "download or convert the file again"
_SHOWN_CHARACTERS = 80


def shown(text: object) -> str:
    """Text from a file as it may stand in a message: quoted, escaped and not longer than a line."""
    quoted = repr(text)
    return quoted if len(quoted) <= _SHOWN_CHARACTERS else f"{quoted[:_SHOWN_CHARACTERS]}..."


class Cursor:
    """A position in a mapped file. Every read checks its own bounds and names what it was reading.

    Args:
        data: the whole file, read-only.
        name: file name for messages.
    """

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0
        self.end = min(len(data), limits.MAX_HEADER_BYTES)
        self.strings_left = limits.MAX_ARRAY_STRINGS

    def error(self, rule: str, got: object, remedy: str = AGAIN) -> GgufError:
        """An error that says where in the file it was found."""
        return GgufError("gguf", rule, f"{got} at byte {self.at} of {self.name}", remedy)

    def need(self, n_bytes: int, what: str) -> None:
        """Raise unless `n_bytes` more bytes of header exist."""
        if n_bytes <= self.end - self.at:
            return
        if n_bytes <= len(self.data) - self.at:
            ceiling = limits.MAX_HEADER_BYTES
            raise self.error(
                f"metadata and tensor table together take at most {ceiling} bytes",
                f"{what} of {n_bytes} bytes",
                "remove the oversized metadata and write the file again",
            )
        raise self.error(
            f"the file holds all bytes of {what}",
            f"{len(self.data) - self.at} of {n_bytes} bytes",
            "the file is cut short or its lengths are wrong: " + AGAIN,
        )

    def skip(self, n_bytes: int, what: str) -> int:
        """Advance over `n_bytes` bytes; returns where they start."""
        self.need(n_bytes, what)
        start = self.at
        self.at += n_bytes
        return start

    def u32(self, what: str) -> int:
        """The next unsigned 32-bit integer."""
        return _U32.unpack_from(self.data, self.skip(4, what))[0]

    def u64(self, what: str) -> int:
        """The next unsigned 64-bit integer."""
        return _U64.unpack_from(self.data, self.skip(8, what))[0]

    def string(self, what: str, max_bytes: int) -> str:
        """The next length-prefixed UTF-8 string of at most `max_bytes` bytes."""
        n_bytes = self.u64(f"length of {what}")
        if n_bytes > max_bytes:
            self.at -= 8
            raise self.error(f"{what} has at most {max_bytes} bytes", n_bytes)
        start = self.skip(n_bytes, what)
        try:
            return self.data[start : self.at].decode("utf-8")
        except UnicodeDecodeError as broken:
            self.at = start + broken.start
            raise self.error(f"{what} is UTF-8", f"byte 0x{self.data[self.at]:02x}") from None

    def skip_strings(self, count: int, what: str) -> None:
        """Advance over `count` strings, checking each; nothing is kept.

        This loop sees every token of a vocabulary, hence the local names and the single slice.
        """
        if count > self.strings_left:
            ceiling = limits.MAX_ARRAY_STRINGS
            raise self.error(f"string arrays hold at most {ceiling} strings together", count)
        self.strings_left -= count
        self.need(8 * count, what)
        data, at, end = self.data, self.at, self.end
        length_at: Callable[[mmap.mmap, int], tuple[int]] = _U64.unpack_from
        for _ in range(count):
            stop = at + 8
            if stop <= end:
                stop += length_at(data, at)[0]
            if stop > end or stop - at - 8 > limits.MAX_STRING_BYTES:
                break
            try:
                data[at + 8 : stop].decode("utf-8")
            except UnicodeDecodeError:
                break
            at = stop
        else:
            self.at = at
            return
        # The same string read with full checks raises with the exact reason.
        self.at = at
        self.string(f"string in {what}", limits.MAX_STRING_BYTES)
        raise self.error(f"{what} is readable", "an unreadable string")
