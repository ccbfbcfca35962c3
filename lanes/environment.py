"""The environment of a run, probed and never typed."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from retrograd.backends import Device, open_device

ROOT = Path(__file__).resolve().parent.parent
_CPU = Path("/proc/cpuinfo")
# Instruction sets that decide which code of ours, of numpy's or of the BLAS runs.
_FEATURES = re.compile(r"(sse|ssse|avx|amx|fma|f16c|bmi|sha_ni|neon|asimd|sve)\w*")
_VARIABLES = ("RETRO_", "OPENBLAS_", "OMP_", "GOTO_", "NPY_")


def probe(backend: str = "cpu") -> dict[str, object]:
    """The ``environment`` block of a receipt.

    Raises:
        DeviceError: there is no such device.
    """
    device = open_device(backend)
    return describe(device)


def describe(device: Device) -> dict[str, object]:
    """What the library says of itself, and the machine around it."""
    said = device.probe()
    compiler, version = str(said["compiler"]), str(said["compiler_version"])
    cpu = _cpu()
    return {
        "class": f"{device.name}-{said['isa']}",
        "toolchain": f"{compiler}{version.partition('.')[0]}",
        "backend": device.name,
        "device": cpu["model"] if device.name == "cpu" else said["device"],
        "cpu": cpu,
        "threads": device.threads,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "compiler": {"id": compiler, "version": version, "flags": str(said["flags"])},
        "blas": str(said["blas"]),
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "os": f"{platform.system()} {platform.release()} {platform.libc_ver()[0]}"
        f"{platform.libc_ver()[1]}",
        "variables": variables(os.environ),
    }


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Every variable that changes dispatch; of a path outside the project its last part."""
    return {
        name: _portable(value)
        for name, value in sorted(environ.items())
        if name.startswith(_VARIABLES)
    }


def _portable(value: str) -> str:
    path = Path(value)
    if not path.is_absolute():
        return value
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _cpu() -> dict[str, object]:
    text = _CPU.read_text(encoding="utf-8") if _CPU.exists() else ""
    fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", text.partition("\n\n")[0], re.MULTILINE))
    flags = str(fields.get("flags") or fields.get("Features") or "").split()
    model = fields.get("model name") or platform.processor() or platform.machine()
    return {"model": model, "features": sorted(f for f in flags if _FEATURES.fullmatch(f))}


def agree(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether equal sources give equal bits here and there.

    Everything that computes is the same: variant, compiler, BLAS kernel, numpy and instruction
    sets. Number of threads, memory and name of the processor change no bit.
    """
    names = ("class", "toolchain", "backend", "compiler", "blas", "numpy", "cpu")
    return all(_computing(one, name) == _computing(other, name) for name in names)


def _computing(environment: Mapping[str, object], name: str) -> object:
    value = environment[name]
    return cast(dict[str, object], value)["features"] if name == "cpu" else value
