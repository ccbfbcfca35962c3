"""Buffers for a launch: poisoned, aligned, and between canaries that a stray write would break."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

CANARY_BYTES = 256
_CANARY = 0xC5
_ALIGNMENT = 64
# As float32 a quiet NaN, as int32 far outside any index: whoever reads it before writing shows it.
_POISON = 0x7FE5A5A5


@dataclass(frozen=True)
class Guarded:
    """One array between two canaries.

    Attributes:
        name: field name, for messages.
        array: the payload, aligned to 64 bytes.
        frozen: copy of the contents that a launch must leave as they are; None for an output.
    """

    name: str
    array: NDArray[np.generic]
    frozen: NDArray[np.generic] | None
    _memory: NDArray[np.uint8] = field(repr=False)
    _start: int = field(repr=False)

    def faults(self) -> list[str]:
        """Writes outside the payload, and writes into an input."""
        end = self._start + self.array.nbytes
        before, after = self._memory[: self._start], self._memory[end:]
        found = [
            f"'{self.name}': {int((part != _CANARY).sum())} bytes written {place} the buffer"
            for part, place in ((before, "before"), (after, "behind"))
            if (part != _CANARY).any()
        ]
        if self.frozen is not None and self.array.tobytes() != self.frozen.tobytes():
            found.append(f"'{self.name}': an input was written")
        return found

    def unwritten(self) -> int:
        """Elements that still hold the poison."""
        words = self.array.reshape(-1).view(np.uint32)
        return int((words == _POISON).sum()) * 4 // self.array.dtype.itemsize


def poisoned(name: str, shape: tuple[int, ...], dtype: np.dtype) -> Guarded:
    """An output or scratch buffer full of poison."""
    return _place(
        name, np.full(_words(shape, dtype), _POISON, dtype=np.uint32).view(np.uint8), shape, dtype
    )


def holding(name: str, values: NDArray[np.generic], *, written: bool) -> Guarded:
    """A buffer that starts as ``values``; an input unless it is ``written`` by the launch."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    frozen = None if written else values.copy()
    return _place(name, data, values.shape, values.dtype, frozen=frozen)


def _words(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // 4)


def _place(
    name: str,
    data: NDArray[np.uint8],
    shape: tuple[int, ...],
    dtype: np.dtype,
    *,
    frozen: NDArray[np.generic] | None = None,
) -> Guarded:
    memory = np.full(len(data) + 2 * CANARY_BYTES + _ALIGNMENT, _CANARY, dtype=np.uint8)
    start = CANARY_BYTES + (-(memory.ctypes.data + CANARY_BYTES)) % _ALIGNMENT
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory[start : start + n_bytes] = data[:n_bytes]
    array = memory[start : start + n_bytes].view(dtype).reshape(shape)
    return Guarded(name, array, frozen, memory, start)
