"""Layouts of the native interface from the Python side.

Argument structs from op signatures, structs from abi.toml.
"""

import ctypes
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lanes.case import Case
from lanes.trial import storage_of
from retrograd.ops import OPS
from retrograd.ops.op import Inferred
from retrograd.rows import Row

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = Path(__file__).with_name("abi.toml")
INCLUDE = ROOT / "native" / "include"
HEADERS = ("retrograd/abi.h", "retrograd/ops/adamw.h", "retrograd/ops/sgd.h")

_C_TYPES = {
    "pointer": ctypes.c_void_p,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f64": ctypes.c_double,
    "f32": ctypes.c_float,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
}
# Rows whose function exists as a kernel alone, no op of the graph: inputs, outputs, dimensions.
_KERNELS_ONLY = {"exp": (("x",), ("y",), ("n",)), "log": (("x",), ("y",), ("n",))}


@dataclass(frozen=True)
class Layout:
    """Size, alignment, and (name, kind, offset, bytes) of each field in order."""

    n_bytes: int
    alignment: int
    fields: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Operand:
    """Shape and storage of a case's field, as the op's shape rule sees it."""

    shape: tuple[int, ...]
    dtype: str


def committed() -> dict[str, dict[str, object]]:
    """The contents of ``abi.toml``."""
    return tomllib.loads(COMMITTED.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Struct:
    """A committed struct: size, alignment, and the offset of each field in order."""

    n_bytes: int
    alignment: int
    offsets: Mapping[str, int]


def committed_structs() -> dict[str, Struct]:
    """The structs of ``abi.toml`` by name."""
    found: dict[str, Struct] = {}
    for name, entry in cast(dict[str, dict[str, object]], committed()["struct"]).items():
        offsets = cast(dict[str, int], entry["offsets"])
        found[name] = Struct(int(str(entry["size"])), int(str(entry["alignment"])), offsets)
    return found


def implied(row: Row, case: Case) -> Layout:
    """The argument struct that a row's Python signature implies, by the C rules of this machine.

    Order: inputs, outputs, scratch, dimensions (int64), 8-byte settings, 4-byte settings.
    """
    table = committed()
    types: Mapping[str, str] = {str(n): str(t) for n, t in table["settings"].items()}
    kinds: Mapping[str, int] = {str(n): int(str(k)) for n, k in table["kinds"].items()}
    if row.op in _KERNELS_ONLY:
        inputs, outputs, dims = _KERNELS_ONLY[row.op]
        pointers, settings = [*inputs, *outputs], ()
    else:
        kernel = OPS[row.op].kernels[row.direction]
        pointers = [*kernel.inputs, *kernel.outputs, *(["scratch"] if kernel.scratch else [])]
        dims, settings = tuple(inferred(row, case).dims), kernel.settings
    names = [(n, "pointer") for n in pointers] + [(n, "i64") for n in dims]
    for width in (8, 4):
        names += [(n, types[n]) for n in settings if ctypes.sizeof(_C_TYPES[types[n]]) == width]
    body = [(n, _C_TYPES[kind]) for n, kind in names]
    struct = type(row.op, (ctypes.Structure,), {"_fields_": body})
    fields = [
        (n, kinds[kind], int(getattr(struct, n).offset), int(getattr(struct, n).size))
        for n, kind in names
    ]
    return Layout(ctypes.sizeof(struct), ctypes.alignment(struct), tuple(fields))


def inferred(row: Row, case: Case) -> Inferred:
    """What the op's shape rule says of a case."""
    fields = {n: Operand(a.shape, "f32") for n, a in case.inputs.items()}
    fields |= {n: Operand(a.shape, storage_of(row)) for n, a in case.decoded.items()}
    updated = case.outputs if row.op == "fill" else case.initial
    fields |= {n: Operand(case.outputs[n][0], case.outputs[n][1]) for n in updated}
    return OPS[row.op].kernels[row.direction].infer(fields, case.settings)


def declared_fields(struct: str) -> list[str]:
    """Field names of a C++ struct in the order of its header, read from the text."""
    for header in HEADERS:
        text = re.sub(r"//[^\n]*", "", (INCLUDE / header).read_text(encoding="utf-8"))
        found = re.search(rf"struct {struct} \{{(.*?)\n\}};", text, re.DOTALL)
        if found:
            return _field_names(found.group(1))
    raise KeyError(struct)


def _field_names(body: str) -> list[str]:
    names: list[str] = []
    for statement in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", statement)
        if function:
            names.append(function.group(1))
        elif statement.strip():
            names += [re.findall(r"\w+", part)[-1] for part in statement.split(",")]
    return names


def compiled(folder: Path) -> dict[str, int]:
    """What the C++ compiler says.

    A probe printed as ``<struct>.size``, ``.alignment``, ``.<field>`` and enumerators.

    Raises:
        subprocess.CalledProcessError: the probe does not compile.
    """
    table = committed()
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += ["#include <cstdio>", "using namespace retrograd;", "int main() {"]
    for struct in table["struct"]:
        lines.append(f'  std::printf("{struct}.size %zu\\n", sizeof({struct}));')
        lines.append(f'  std::printf("{struct}.alignment %zu\\n", alignof({struct}));')
        lines += [
            f'  std::printf("{struct}.{field} %zu\\n", offsetof({struct}, {field}));'
            for field in declared_fields(struct)
        ]
    lines += [
        f'  std::printf("{code} %d\\n", static_cast<int>({code}));' for code in table["codes"]
    ]
    lines.append('  std::printf("abi_version %u\\n", static_cast<unsigned>(RETRO_ABI_VERSION));')
    source, program = folder / "probe.cpp", folder / "probe"
    source.write_text("\n".join([*lines, "}", ""]), encoding="utf-8")
    subprocess.run(
        ["g++", "-std=c++17", "-I", str(INCLUDE), str(source), "-o", str(program)], check=True
    )
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in (line.split() for line in printed.splitlines())}
