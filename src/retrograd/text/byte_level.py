"""The printable alphabet of byte-level BPE.

Such a vocabulary writes every byte as one printable character: the 188 bytes that are printable in
Latin-1 stand for themselves, and the other 68, in rising order, take U+0100 onwards.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType


@cache
def byte_to_character() -> Mapping[int, str]:
    """All 256 bytes and the character each is written as."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    table = {byte: chr(byte) for byte in printable}
    shifted = (byte for byte in range(256) if byte not in printable)
    table |= {byte: chr(0x100 + i) for i, byte in enumerate(shifted)}
    return MappingProxyType(table)


@cache
def character_to_byte() -> Mapping[str, int]:
    """The inverse of :func:`byte_to_character`."""
    return MappingProxyType({character: byte for byte, character in byte_to_character().items()})
