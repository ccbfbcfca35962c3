"""Turns rows.toml into what the native build needs: source lists and the dispatch table.

Run by CMake at configure time: ``python generate.py cpu --out BUILD``. Writes ``sources.cmake`` and
``dispatch.inc``. A row without its kernel file, a kernel file without a row, and a declared fault
that no kernel plants all stop the build and name the path. Standard library only: it runs before
anything is installed.
"""

import argparse
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ROWS = ROOT.parent / "src" / "retrograd" / "rows.toml"
# Sources of the CPU backend that hold no kernel.
CPU_FRAME = frozenset({"backend", "pool"})
VARIANTS = ("portable", "avx2")


@dataclass(frozen=True)
class Row:
    """One kernel row: what the build needs of it."""

    op: str
    direction: str
    dtype: str
    backend: str
    faults: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.op}.{self.direction}.{self.dtype}.{self.backend}"

    @property
    def symbol(self) -> str:
        return self.id.replace(".", "_").replace("-", "_")

    @property
    def arguments(self) -> str:
        return "".join(part.capitalize() for part in f"{self.op}_{self.direction}".split("_"))


def read_rows(backend: str, path: Path = ROWS) -> list[Row]:
    """All rows of one backend, in the order of the file."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Row(row["op"], row["direction"], dtype, row["backend"], tuple(row["faults"]))
        for row in document["row"]
        for dtype in row["dtype"]
        if row["backend"] == backend
    ]


def check(rows: list[Row], backend: str) -> list[str]:
    """What is wrong between the rows and the kernel files, one message each."""
    folder = ROOT / backend
    files = {path.stem for path in folder.glob("*.cpp")} - CPU_FRAME
    ops = {row.op for row in rows}
    wrong = [
        f"{ROWS}: row of op '{op}' has no kernel file {folder / op}.cpp"
        for op in sorted(ops - files)
    ]
    wrong += [
        f"{folder / name}.cpp: no row in {ROWS} declares this kernel"
        for name in sorted(files - ops)
    ]
    for row in rows:
        path = folder / f"{row.op}.cpp"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        wrong += [
            f"{path}: row {row.id} declares the fault '{fault}', which no kernel plants"
            for fault in row.faults
            if f'fault("{fault}")' not in text
        ]
        if not row.faults:
            rule = "a check that cannot fail proves nothing"
            wrong.append(f"{ROWS}: row {row.id} declares no fault; {rule}")
    return wrong


def dispatch(rows: list[Row]) -> str:
    """The C++ text that joins row ids, argument layouts and kernels of every variant."""
    lines = ["// Written by native/generate.py from rows.toml; do not edit."]
    lines += [f'#include "retrograd/ops/{op}.h"' for op in dict.fromkeys(row.op for row in rows)]
    lines.append('#include "digests.inc"')
    for variant in VARIANTS:
        lines.append(f"namespace retrograd {{ namespace {variant} {{")
        lines += [f"RetroStatus {row.symbol}(const void*, Stream&);" for row in rows]
        lines.append("} }")
    lines.append(f"static constexpr uint32_t kRowCount = {len(rows)};")
    lines.append("static constexpr RetroRow kRows[] = {")
    for row in rows:
        name = f"retrograd::{row.arguments}"
        fields = f"retrograd::Layout<{name}>::n_fields, 0, retrograd::Layout<{name}>::fields"
        shape = f"sizeof({name}), alignof({name}), {fields}"
        lines.append(f'  {{"{row.id}", {shape}, retrograd::digest::{row.symbol}}},')
    lines.append("};")
    lines.append(f"static constexpr retrograd::Launch kKernels[][{len(VARIANTS)}] = {{")
    for row in rows:
        lines.append("  {" + ", ".join(f"retrograd::{v}::{row.symbol}" for v in VARIANTS) + "},")
    lines.append("};")
    return "\n".join(lines) + "\n"


def write_if_changed(path: Path, text: str) -> None:
    """Leaves the time stamp alone when nothing changed, so that nothing is rebuilt."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Writes the files; 1 when rows and kernel files disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = read_rows(options.backend)
    wrong = check(rows, options.backend)
    for message in wrong:
        print(f"error: {message}", file=sys.stderr)
    if wrong:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    sources = [f"{options.backend}/{op}.cpp" for op in dict.fromkeys(row.op for row in rows)]
    write_if_changed(options.out / "dispatch.inc", dispatch(rows))
    write_if_changed(options.out / "sources.cmake", f"set(RETRO_KERNELS {' '.join(sources)})\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
