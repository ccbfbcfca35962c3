"""The contract between Python and C++: backends, streams and programs.

Implemented in native/bindings/module.cpp. Failures of a backend arrive as
:class:`retrograd.errors.DeviceError` or ``InternalError``. An address is that of memory which a
:class:`Stream` allocated; whoever asked for it releases it.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

from numpy.typing import NDArray

Memory = NDArray[Any] | bytes | bytearray | memoryview

class Probe(TypedDict):
    """What a backend says of itself."""

    device: str
    isa: str
    blas: str
    threads: int
    has_faults: bool
    compiler: str
    compiler_version: str
    flags: str

class Counters(TypedDict):
    """What a stream has done since it was opened."""

    launches: int
    allocations: int
    allocated_bytes: int
    host_to_device_bytes: int
    device_to_host_bytes: int
    synchronisations: int

class Library:
    """A backend library, loaded and checked against the ABI version."""

    def __init__(self, path: str) -> None: ...
    @property
    def name(self) -> str: ...
    def rows(self) -> list[tuple[str, int, int, list[tuple[str, int, int, int]]]]:
        """Id, struct bytes, struct alignment and fields (name, kind, offset, bytes) of each row."""

    def digests(self) -> dict[str, str]:
        """SHA-256, in hex, of what each row was compiled from, by id."""

class Stream:
    """An open backend: its worker pool and counters.

    Args:
        threads: workers that share a launch; no result depends on it.
        isa: instruction-set variant, None for the best there is.
        blas: path of the BLAS library, None for none.
    """

    def __init__(
        self, library: Library, *, threads: int, isa: str | None = None, blas: str | None = None
    ) -> None: ...
    def probe(self) -> Probe: ...
    def counters(self) -> Counters: ...
    def allocate(self, n_bytes: int) -> int:
        """Zeroed, 64-byte aligned memory; 0 for no bytes."""

    def release(self, address: int) -> None: ...
    def to_device(self, address: int, source: Memory) -> None: ...
    def to_host(self, address: int, target: Memory) -> None: ...
    def launch(self, row: int, arguments: bytes) -> None:
        """Runs one row, by its place in :meth:`Library.rows`, with the GIL released."""

    def set_fault(self, fault: str | None) -> None:
        """Switches on the planted fault ``row:name``, or all off; refused outside test builds."""

class Program:
    """Launches in order with every address in place; a range of them runs in one call."""

    def __init__(self, stream: Stream, rows: Sequence[int], arguments: Sequence[bytes]) -> None: ...
    def __len__(self) -> int: ...
    def run(self, begin: int, end: int) -> None:
        """Runs launches ``begin <= i < end`` with the GIL released."""

    def profile(self, begin: int, end: int) -> list[float]:
        """As :meth:`run`; returns the seconds of each launch."""
