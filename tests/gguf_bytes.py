"""Raw GGUF bytes, built field by field so that any field can lie. Independent of retrograd.gguf."""

import struct
from dataclasses import dataclass

U8, BOOL, STRING, ARRAY, U32, F32 = 0, 7, 8, 9, 4, 6


def text(value: str | bytes) -> bytes:
    stored = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(stored)) + stored


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, body: bytes) -> bytes:
    return struct.pack("<IQ", kind, count) + body


def record(name: str | bytes, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(dims))
        + struct.pack(f"<{len(dims)}Q", *dims)
        + struct.pack("<IQ", kind, offset)
    )


ARCH = pair("general.architecture", STRING, text("llama"))


@dataclass(frozen=True)
class Raw:
    """A file in parts; counts follow the parts unless they are given."""

    pairs: tuple[bytes, ...] = (ARCH,)
    records: tuple[bytes, ...] = ()
    data: bytes = b""
    magic: bytes = b"GGUF"
    version: bytes = struct.pack("<I", 3)
    n_tensors: int | None = None
    n_pairs: int | None = None
    alignment: int = 32

    def bytes(self) -> bytes:
        n_tensors = len(self.records) if self.n_tensors is None else self.n_tensors
        n_pairs = len(self.pairs) if self.n_pairs is None else self.n_pairs
        head = self.magic + self.version + struct.pack("<QQ", n_tensors, n_pairs)
        head += b"".join(self.pairs) + b"".join(self.records)
        return head + bytes(-len(head) % self.alignment) + self.data
