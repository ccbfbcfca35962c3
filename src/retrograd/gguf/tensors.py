"""The tensor table: names, shapes, formats and where each tensor's bytes lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from retrograd.errors import GgufError
from retrograd.formats import FORMATS, Format
from retrograd.gguf import limits
from retrograd.gguf.cursor import AGAIN, Cursor


@dataclass(frozen=True)
class TensorInfo:
    """One stored tensor.

    Args:
        name: its name in the file.
        shape: in numpy order (the file lists the fastest dimension first); a weight is (out, in).
        format: lower-case name of its storage format.
        offset: where its bytes start, counted from the start of the file.
        n_bytes: how many bytes it takes.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    offset: int
    n_bytes: int

    @property
    def n_elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def known_layouts() -> dict[int, Format]:
    """Every layout that GGUF numbers, those without a decoder of ours included."""
    from gguf.constants import GGML_QUANT_SIZES  # here: the package takes 60 ms to import

    layouts = {
        int(kind): Format(kind.name.lower(), int(kind), *sizes)
        for kind, sizes in GGML_QUANT_SIZES.items()
    }
    return layouts | {row.ggml_type: row for row in FORMATS.values()}


def read_tensor_table(cursor: Cursor, count: int) -> list[TensorInfo]:
    """Check `count` tensor records at the cursor. Offsets are still relative to the data section.

    Raises:
        GgufError: a name, shape, type or offset breaks a rule of the format.
    """
    # The shortest record: name length, one byte of name, one dimension, type, offset.
    cursor.need(33 * count, f"{count} tensor records")
    layouts = known_layouts()
    tensors: dict[str, TensorInfo] = {}
    for _ in range(count):
        start = cursor.at
        name = cursor.string("a tensor name", limits.MAX_TENSOR_NAME_BYTES)
        if not name or name in tensors:
            cursor.at = start
            rule = "a tensor name occurs once" if name else "a tensor name has at least one byte"
            raise cursor.error(rule, repr(name))
        tensors[name] = _read_record(cursor, name, layouts)
    return list(tensors.values())


def _read_record(cursor: Cursor, name: str, layouts: Mapping[int, Format]) -> TensorInfo:
    start = cursor.at
    n_dimensions = cursor.u32(f"dimension count of {name!r}")
    if not 1 <= n_dimensions <= limits.MAX_DIMENSIONS:
        cursor.at = start
        rule = f"tensor {name!r} has 1 to {limits.MAX_DIMENSIONS} dimensions"
        raise cursor.error(rule, n_dimensions)
    start = cursor.at
    dimensions = [cursor.u64(f"dimension of {name!r}") for _ in range(n_dimensions)]
    if 0 in dimensions:
        cursor.at = start
        raise cursor.error(f"every dimension of {name!r} is at least 1", dimensions)
    n_elements = prod(dimensions)
    if n_elements > limits.MAX_ELEMENTS:
        cursor.at = start
        rule = f"the dimensions of {name!r} multiply to at most {limits.MAX_ELEMENTS}"
        raise cursor.error(rule, dimensions)
    start = cursor.at
    layout = layouts.get(cursor.u32(f"type of {name!r}"))
    if layout is None:
        cursor.at = start
        rule = f"tensor {name!r} has a known type ({', '.join(FORMATS)} can be decoded)"
        got = f"type {cursor.u32('type')}"
        cursor.at = start
        raise cursor.error(rule, got, "convert the model to a listed format")
    if dimensions[0] % layout.block_elements:
        cursor.at = start
        block = layout.block_elements
        rule = f"rows of {name!r} hold whole {layout.name} blocks of {block} elements"
        raise cursor.error(rule, f"rows of {dimensions[0]}", "keep this tensor in f16 or f32")
    offset = cursor.u64(f"offset of {name!r}")
    n_bytes = layout.n_bytes(n_elements)
    return TensorInfo(name, tuple(reversed(dimensions)), layout.name, offset, n_bytes)


def place_tensors(
    tensors: list[TensorInfo], *, data_start: int, alignment: int, file_bytes: int, file_name: str
) -> dict[str, TensorInfo]:
    """Tensors with offsets from the start of the file, once all lie inside it and none overlap.

    Raises:
        GgufError: an offset is not aligned, reaches past the end, or two tensors share bytes.
    """

    def refuse(rule: str, got: str) -> GgufError:
        return GgufError("gguf", rule, f"{got} in {file_name}", AGAIN)

    placed: dict[str, TensorInfo] = {}
    for t in tensors:
        if t.offset % alignment:
            rule = f"tensor {t.name!r} starts at a multiple of {alignment} bytes"
            raise refuse(rule, f"offset {t.offset}")
        start = data_start + t.offset
        if start + t.n_bytes > file_bytes:
            rule = f"tensor {t.name!r} lies inside the file of {file_bytes} bytes"
            raise refuse(rule, f"bytes {start} to {start + t.n_bytes}")
        placed[t.name] = TensorInfo(t.name, t.shape, t.format, start, t.n_bytes)
    in_order = sorted(placed.values(), key=lambda t: t.offset)
    for before, after in pairwise(in_order):
        if before.offset + before.n_bytes > after.offset:
            rule = f"tensors {before.name!r} and {after.name!r} share no bytes"
            raise refuse(
                rule, f"{before.offset + before.n_bytes} as an end, {after.offset} as a start"
            )
    return placed
