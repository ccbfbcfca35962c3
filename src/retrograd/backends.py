"""Devices: finding and opening a backend library.

A backend is a shared library next to this package, loaded on first use. ``RETRO_THREADS`` sets the
number of CPU
workers (default: the processors this process may use), ``RETRO_CPU_ISA`` forces an instruction-set
variant.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from retrograd.errors import ConfigError, DeviceError

if TYPE_CHECKING:
    from retrograd import _native

BACKENDS = ("cpu",)
VARIANTS = ("portable", "avx2")
Field = tuple[str, int, int, int]  # name, kind, offset, bytes


@dataclass(frozen=True)
class Layout:
    """Argument struct of a row as the library's compiler laid it out."""

    index: int
    n_bytes: int
    alignment: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Device:
    """An open backend: its stream and its rows.

    Attributes:
        name: backend name, such as ``cpu``.
        threads: workers that share a launch.
    """

    name: str
    threads: int
    library: "_native.Library"
    stream: "_native.Stream"

    @cached_property
    def layouts(self) -> Mapping[str, Layout]:
        """Argument layouts by row id."""
        rows = enumerate(self.library.rows())
        return {
            rid: Layout(i, size, alignment, tuple(fields))
            for i, (rid, size, alignment, fields) in rows
        }

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256, in hex, of what each row of the library was compiled from, by row id."""
        return self.library.digests()

    @cached_property
    def env_class(self) -> str:
        """Environment class of the evidence table: backend and instruction-set variant."""
        return f"{self.name}-{self.probe()['isa']}"

    @cached_property
    def toolchain(self) -> str:
        """Compiler and its major version, such as ``gcc12``."""
        probe = self.probe()
        return f"{probe['compiler']}{str(probe['compiler_version']).partition('.')[0]}"

    def probe(self) -> Mapping[str, object]:
        """What the library says of itself: device, isa, blas, threads, has_faults, compiler."""
        return self.stream.probe()

    def set_fault(self, fault: str | None) -> None:
        """Switches a planted fault ``row:name`` on, or all off; refused outside test builds."""
        self.stream.set_fault(fault)


def requested_threads() -> int:
    """``RETRO_THREADS``, or the processors this process may use.

    Raises:
        ConfigError: the variable is not a whole number between 1 and 1024.
    """
    text = os.environ.get("RETRO_THREADS")
    if text is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if not (text.isdecimal() and text.isascii() and len(text) <= 4) or not 1 <= int(text) <= 1024:
        raise ConfigError(
            "cpu",
            "RETRO_THREADS is a whole number between 1 and 1024",
            repr(text),
            "unset it or correct it",
        )
    return int(text)


def open_device(
    name: str = "cpu", *, threads: int | None = None, isa: str | None = None, faults: bool = False
) -> Device:
    """Opens a backend.

    Args:
        name: backend to open.
        threads: CPU workers; default :func:`requested_threads`.
        isa: CPU instruction-set variant (``portable``, ``avx2``); default ``RETRO_CPU_ISA`` or the
            best there is.
        faults: open the test library that holds planted faults.

    Raises:
        DeviceError: the backend is unknown, absent, or lacks what was asked of it.
    """
    from retrograd import _native

    if name not in BACKENDS:
        raise DeviceError(
            "device",
            "the device is one of those this build knows",
            name,
            f"use one of: {', '.join(BACKENDS)}",
        )
    count = threads if threads is not None else requested_threads()
    library = _native.Library(str(library_path(name, faults=faults)))
    variant = isa or os.environ.get("RETRO_CPU_ISA") or None
    if variant is not None and variant not in VARIANTS:
        rule = f"the instruction-set variant (RETRO_CPU_ISA) is one of: {', '.join(VARIANTS)}"
        raise DeviceError("cpu", rule, repr(variant), "unset it or correct it")
    stream = _native.Stream(library, threads=count, isa=variant, blas=str(_blas_path()))
    return Device(name, count, library, stream)


def library_path(name: str, *, faults: bool = False) -> Path:
    """The backend library's file.

    Raises:
        DeviceError: it was not built.
    """
    if faults and os.environ.get("RETRO_FAULTS_LIBRARY"):
        path = Path(os.environ["RETRO_FAULTS_LIBRARY"])
    else:
        path = Path(__file__).with_name(f"libretrograd_{name}{'_faults' if faults else ''}.so")
    if not path.exists():
        remedy = "build with -DRETRO_FAULTS=ON" if faults else "reinstall retrograd"
        raise DeviceError("device", f"the library of backend '{name}' is there", path, remedy)
    return path


def _blas_path() -> Path:
    import scipy_openblas32  # pyright: ignore[reportMissingTypeStubs]

    folder = Path(str(scipy_openblas32.get_lib_dir()))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    for path in sorted(folder.glob("libscipy_openblas*")):
        if path.suffix in {".so", ".dylib", ".dll"}:
            return path
    raise DeviceError(
        "blas", "scipy-openblas32 carries its shared library", folder, "reinstall scipy-openblas32"
    )
