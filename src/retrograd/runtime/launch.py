"""Packing of argument structs, and single launches of one row on host arrays (what lanes use)."""

import struct
from collections.abc import Mapping

import numpy as np

from retrograd.backends import Device, Layout
from retrograd.errors import AdmissionError, InternalError

# Kinds of RetroKind in native/include/retrograd/abi.h, as struct codes.
_CODES = {0: "Q", 1: "q", 2: "Q", 3: "d", 4: "f", 5: "i", 6: "I"}
POINTER = 0


def layout_of(device: Device, row_id: str) -> Layout:
    """The row's argument layout.

    Raises:
        AdmissionError: this build holds no kernel of that id.
    """
    if row_id not in device.layouts:
        raise AdmissionError(
            row_id,
            "this build holds the kernel row",
            "no such row",
            f"rebuild the {device.name} backend",
        )
    return device.layouts[row_id]


def pack(layout: Layout, row_id: str, fields: Mapping[str, int | float]) -> bytes:
    """The bytes of an argument struct; absent pointers are null, other fields are given."""
    blob = bytearray(layout.n_bytes)
    known = set[str]()
    for name, kind, offset, _ in layout.fields:
        known.add(name)
        value = fields.get(name)
        if value is None:
            if kind != POINTER:
                raise InternalError(
                    row_id, f"the argument '{name}' is given", sorted(fields), "report this"
                )
            value = 0
        struct.pack_into(f"<{_CODES[kind]}", blob, offset, value)
    if not set(fields) <= known:
        raise InternalError(
            row_id,
            f"arguments are among {sorted(known)}",
            sorted(set(fields) - known),
            "report this",
        )
    return bytes(blob)


def launch(device: Device, row_id: str, **fields: "np.ndarray | int | float | None") -> None:
    """Runs one row on host memory: arrays are passed by address and written in place.

    Args:
        fields: arguments by C field name; contiguous arrays for buffers, None for an absent one.
    """
    layout = layout_of(device, row_id)
    plain: dict[str, int | float] = {}
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise InternalError(
                    row_id, f"'{name}' is contiguous", value.strides, "copy it first"
                )
            plain[name] = value.ctypes.data
        elif value is not None:
            plain[name] = value
    device.stream.launch(layout.index, pack(layout, row_id, plain))
