"""Activations, gradients and weights of the real model, as the corpus ``captured`` reads them.

``index.json`` says what lies where in ``activations.bin`` and carries the SHA-256 of that file;
both are written by ``python -m lanes.captured --write``. Every array keeps the bytes it had in the
model: float32 and int32 little-endian, stored weights as blocks.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import DataError

FOLDER = Path(__file__).parent
INDEX, DATA = "index.json", "activations.bin"
REMEDY = "restore both files, or run `python -m lanes.captured --write` and let a reviewer read it"


@dataclass(frozen=True)
class Captured:
    """What was captured.

    Attributes:
        arrays: read-only arrays by name; a stored weight as (rows, bytes of a row) uint8.
        numbers: settings of the model that its ops were given.
    """

    arrays: Mapping[str, NDArray[np.generic]]
    numbers: Mapping[str, float]

    def f32(self, name: str) -> NDArray[np.float32]:
        """A float32 array by name."""
        return self.arrays[name].view(np.float32)

    def i32(self, name: str) -> NDArray[np.int32]:
        """An int32 array by name."""
        return self.arrays[name].view(np.int32)


@cache
def captured() -> Captured:
    """The stored capture, checked once a process.

    Raises:
        DataError: a file is missing, or the data are not those that the index names.
    """
    return read(FOLDER)


def read(folder: Path) -> Captured:
    """A capture in a folder; see :func:`captured`."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        data = (folder / DATA).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError("captured", f"{INDEX} and {DATA} are there", error, REMEDY) from error
    found = hashlib.sha256(data).hexdigest()
    if found != index["sha256"]:
        raise DataError("captured", f"{DATA} has the digest {index['sha256']}", found, REMEDY)
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, entry in index["arrays"].items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, dtype, count, entry["offset"]).reshape(shape)
    return Captured(MappingProxyType(arrays), MappingProxyType(index["numbers"]))
