"""The machine and the build that figures belong to, and how quiet the machine was."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

_VARIABLES = ("RETRO_", "OPENBLAS_", "OMP_", "MKL_", "GOTO_", "KMP_")
_FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile")


@dataclass(frozen=True)
class Load:
    """Processor time of the whole machine so far, in seconds; and what the host took away."""

    busy_s: float
    stolen_s: float


def load() -> Load:
    """Reads the machine's counters."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, softirq, steal, *_ = (int(f) for f in fields)
    tick = os.sysconf("SC_CLK_TCK")
    return Load((user + nice + system + irq + softirq) / tick, steal / tick)


def machine() -> list[str]:
    """Processor, memory, system and every variable set that changes dispatch."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    facts = dict(
        (part.strip() for part in line.split(":", 1)) for line in text.splitlines() if ":" in line
    )
    present = [flag for flag in _FLAGS if flag in facts.get("flags", "").split()]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    changed = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)]
    identity = [facts.get(k, "unknown") for k in ("model name", "cpu family", "model", "stepping")]
    return [
        "processor: {} (family {}, model {}, stepping {})".format(*identity),
        f"cores: {len(os.sched_getaffinity(0))}, flags: {' '.join(present)}",
        f"memory: {pages / 2**30:.1f} GiB, kernel {platform.release()}",
        f"python {platform.python_version()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
        f"variables: {' '.join(changed) or 'none'}",
    ]


def checkout(root: Path) -> str:
    """Commit of the sources and whether they were changed since; or that there is no checkout."""
    command = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "no checkout"
