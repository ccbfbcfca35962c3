"""Copies of the tree, and which rows a file stands behind: not by the code under test.

Headers come from the compiler (``g++ -MM``), imports from the instructions of compiled modules.
"""

import functools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from modulefinder import ModuleFinder
from pathlib import Path
from types import CodeType

from house import ROOT

COPIED = ("native", "src", "lanes", "oracles", "fixtures")
TOP = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE")
FRAME = ("backend", "pool")
MACHINE = {"portable": (), "avx2": ("-mavx2", "-mfma", "-mf16c")}


def copy_tree(target: Path) -> Path:
    """The files that a build and the digests need, without build products."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "interop", "peers")
    for name in COPIED:
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in TOP:
        shutil.copy(ROOT / name, target / name)
    return target


@dataclass(frozen=True)
class Affected:
    """Files of the tree by what they stand behind; names are paths below the root."""

    rows: Mapping[str, str]  # row id -> op
    kernels: Mapping[str, frozenset[str]]  # op -> files
    evidence: Mapping[str, frozenset[str]]

    def kernel_rows(self, name: str) -> set[str]:
        """Rows whose kernel is compiled from the file."""
        return {row for row, op in self.rows.items() if name in self.kernels[op]}

    def all_rows(self, name: str) -> set[str]:
        """Rows whose kernel or evidence stands on the file."""
        of_evidence = {row for row, op in self.rows.items() if name in self.evidence[op]}
        return self.kernel_rows(name) | of_evidence


def affected(root: Path) -> Affected:
    """What every file of a tree stands behind."""
    rows = {row: str(entry["op"]) for row, entry in row_entries(root).items()}
    ops = sorted(set(rows.values()))
    headers = _depends(root, ops)
    frame = headers["backend"] | headers["pool"]
    kernels = {op: frozenset(headers[op] | frame) for op in ops}
    judge = _imports(root, "lanes/trial.py", ("lanes",)) | {
        "src/retrograd/runtime/launch.py",
        "lanes/suite/ops.py",
        "lanes/verdict.py",
    }
    return Affected(rows, kernels, {op: frozenset(_evidence(root, op) | judge) for op in ops})


def row_entries(root: Path) -> dict[str, dict[str, object]]:
    """Row id to its entry."""
    text = (root / "src" / "retrograd" / "rows.toml").read_bytes().decode()
    rows = [{**e, "dtype": d} for e in tomllib.loads(text)["row"] for d in e["dtype"]]
    return {".".join(r[k] for k in ("op", "direction", "dtype", "backend")): r for r in rows}


def table_lines(root: Path) -> dict[str, str]:
    """Row id to what the tree's own generator writes of it; empty when it does not run."""
    out = root / "table"
    command = [sys.executable, "-B", "native/generate.py", "cpu", "--out", str(out)]
    if subprocess.run(command, cwd=root, capture_output=True, check=False).returncode != 0:
        return {}
    lines = (out / "dispatch.inc").read_text("utf-8").splitlines()
    begins = [i for i, line in enumerate(lines) if line.endswith("{")]
    found: dict[str, str] = {}
    for row in row_entries(root):
        symbol = re.compile(rf"\b{re.sub(r'[.-]', '_', row)}\b")
        at = [i for i, line in enumerate(lines) if symbol.search(line)]
        places = [i - max([b for b in begins if b < i], default=0) for i in at]
        found[row] = repr([(lines[i], p - places[0]) for i, p in zip(at, places, strict=True)])
    return found


def _depends(root: Path, ops: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    sources = [f"native/cpu/{stem}.cpp" for stem in (*ops, *FRAME)]
    folders = ("-Inative/include", "-Inative/cpu")
    for variant, machine in MACHINE.items():
        flags = ("-std=c++17", f"-DRETRO_VARIANT={variant}", *machine, *folders)
        # -MG: the generated dispatch table is not there, and is none of the files asked about.
        command = ["g++", "-MM", "-MG", *flags, *sources]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        for rule in re.sub(r"\\\n", " ", done.stdout).splitlines():
            target, names = rule.split(":", 1)
            files = {name for name in names.split() if name.startswith("native/")}
            found.setdefault(Path(target).stem, set()).update(files)
    return found


def _evidence(root: Path, op: str) -> set[str]:
    cases = ("lanes", "oracles", "src/retrograd/formats")
    found = _imports(root, f"src/retrograd/ops/{op}.py", ("src/retrograd",))
    found |= _imports(root, f"oracles/ops/{op}.py", ("oracles",))
    found |= _imports(root, f"oracles/pinned/{op}.py", ("oracles",))
    for name in (f"lanes/cases/{op}.py", "lanes/cases/regressions.py", "lanes/catalogue.py"):
        found |= _imports(root, name, cases)
    return found


def _imports(root: Path, name: str, folders: tuple[str, ...]) -> set[str]:
    """A module and all that it reaches by import instructions inside these folders."""
    if not (root / name).is_file():
        return set()
    found: set[str] = set()
    waiting = {name}
    while waiting:
        name = waiting.pop()
        found.add(name)
        for module in _imported(root / name):
            inside = "src/" + module if module.startswith("retrograd/") else module
            for path in (f"{inside}.py", f"{inside}/__init__.py"):
                if path.startswith(folders) and (root / path).is_file() and path not in found:
                    waiting.add(path)
                if (root / path).is_file():
                    break
    return found


@functools.cache
def _imported(path: Path) -> list[str]:
    """Modules as paths: for ``from a import b`` ``a/b`` if that is one, else ``a``."""
    root = next(p for p in path.parents if (p / "CMakeLists.txt").is_file())
    modules: list[str] = []
    for kind, *what in _scan(compile(path.read_bytes(), str(path), "exec")):
        if kind != "absolute_import":
            continue
        names, module = what[0]
        base = module.replace(".", "/")
        for name in names or ():
            inside = f"{base}/{name}"
            here = root / ("src" if inside.startswith("retrograd/") else "") / inside
            is_module = here.with_suffix(".py").is_file() or (here / "__init__.py").is_file()
            modules.append(inside if is_module else base)
        if not names:
            modules.append(base)
    return modules


def _scan(code: CodeType) -> Iterator[tuple[str, tuple[list[str] | None, str]]]:
    yield from ModuleFinder().scan_opcodes(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _scan(constant)
