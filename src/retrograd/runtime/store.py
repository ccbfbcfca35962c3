"""Persistent device memory: a buffer for each value of a graph that outlives a run.

Frozen weights are not copied on the CPU: their address is that of the mapped file.
"""

from collections.abc import Mapping

import numpy as np

from retrograd.backends import Device
from retrograd.errors import InternalError
from retrograd.graph import Role, Value

NUMPY_DTYPES: Mapping[str, type[np.generic]] = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "u32": np.uint32,
    "u8": np.uint8,
}


class Store:
    """Buffers by value name; several graphs may share one store.

    Args:
        device: where the memory lies.
        parent: a store whose buffers this one sees as its own; what this one allocates dies with
            it.
    """

    def __init__(self, device: Device, parent: "Store | None" = None) -> None:
        self.device = device
        self._parent = parent
        self._addresses: dict[str, int] = {}
        self._owned: dict[str, int] = {}  # address by name, of what this store allocated
        self._sizes: dict[str, int] = {}
        self._borrowed: dict[str, np.ndarray] = {}  # keeps mapped weights alive
        self._arena = (0, 0)

    def __del__(self) -> None:
        for address in (*self._owned.values(), self._arena[0]):
            if address:
                self.device.stream.release(address)

    def bind(self, name: str, data: np.ndarray) -> None:
        """Uses host memory in place as the buffer of a frozen weight."""
        self._borrowed[name] = data
        self._addresses[name] = data.ctypes.data
        self._sizes[name] = data.nbytes

    def ensure(self, value: Value) -> None:
        """Allocates a zeroed buffer for a persistent value unless one of that name is there."""
        if self._holder(value.name) is not None:
            if self._size(value.name) != value.n_bytes:
                got = (value.name, self._size(value.name), value.n_bytes)
                raise InternalError("store", "a name keeps its size in bytes", got, "report this")
            return
        if value.role in (Role.WEIGHT, Role.ACTIVATION):
            raise InternalError(
                "store", "weights are bound before a graph is compiled", value.name, "report this"
            )
        address = self.device.stream.allocate(max(value.n_bytes, 1))
        self._addresses[value.name] = self._owned[value.name] = address
        self._sizes[value.name] = value.n_bytes

    def address(self, name: str) -> int:
        """Address of a buffer.

        Raises:
            InternalError: no buffer of that name is there.
        """
        return self._held(name)._addresses[name]

    def holds(self, name: str) -> bool:
        """Whether this store itself allocated a buffer of that name."""
        return name in self._owned

    def drop(self, name: str) -> None:
        """Releases a buffer of this store's own; programs that used it must not run again."""
        self.device.stream.release(self._owned.pop(name))
        del self._addresses[name], self._sizes[name]

    def _size(self, name: str) -> int:
        return self._held(name)._sizes[name]

    def _held(self, name: str) -> "Store":
        holder = self._holder(name)
        if holder is None:
            raise InternalError("store", "a buffer is there before it is used", name, "report this")
        return holder

    def _holder(self, name: str) -> "Store | None":
        if name in self._addresses:
            return self
        return self._parent._holder(name) if self._parent is not None else None

    def arena(self, n_bytes: int) -> int:
        """The shared arena's address, grown to ``n_bytes``; growing moves it."""
        address, size = self._arena
        if n_bytes > size:
            if address:
                self.device.stream.release(address)
            self._arena = (self.device.stream.allocate(n_bytes), n_bytes)
        return self._arena[0]

    @property
    def arena_bytes(self) -> int:
        return self._arena[1]

    def write(self, name: str, data: np.ndarray) -> None:
        """Copies a host array into a buffer of the same size in bytes."""
        if data.nbytes != self._size(name):
            got = (name, data.nbytes, self._size(name))
            raise InternalError(
                "store", "a copy has the buffer's size in bytes", got, "report this"
            )
        if data.nbytes:
            self.device.stream.to_device(self.address(name), np.ascontiguousarray(data))

    def read(self, value: Value) -> np.ndarray:
        """A host copy of a persistent value."""
        out = np.empty(value.shape, NUMPY_DTYPES[value.dtype])
        if out.nbytes:
            self.device.stream.to_host(self.address(value.name), out)
        return out
