"""Kernel digests: which sources and project flags stand behind each row of a backend library.

Run by CMake at build time, ``python -m native.digests cpu --out BUILD``. Writes ``digests.inc``,
which the dispatch table compiles into the library. Lanes call :func:`row_digests` for what the
checkout would give. Standard library only: it runs before anything is installed.

A row's digest is the SHA-256 of canonical JSON over

- its id;
- ``files``: path below the checkout and SHA-256 of every project file of its closure. That is its
  kernel source and each project header it includes, and the *frame* that every launch passes
  through: backend and pool sources with their headers. They dispatch rows, hand out the work, open
  BLAS and own memory, so they can change any row;
- ``binding``: the lines of the generated dispatch table that join the row's id, argument struct and
  kernels. Argument structs enter through the kernel that includes them: the table includes all of
  them, and counting it as a whole would tie every row to every op;
- ``flags``: what the project sets for each variant, for the frame and for linking, in order.

Paths have '/' separators and line ends are LF, so the digest is that of the sources and not of a
checkout. Left out: system headers, BLAS, the compiler and the flags of its user (environment, not
digest), warnings, include paths, and rows.toml (the op digest holds a row's declaration).

The closure comes from the compiler's dependency output with the flags of the object, for all
variants. It has to equal what the text includes, or the build stops: a header behind ``#if`` would
give another closure on another processor, and the checkout alone could not say what is stale.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from native.generate import CPU_FRAME, VARIANTS, Row, dispatch, read_rows

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = "native/include"
# Written by the build and included by backend sources. They hold no code of their own.
GENERATED = frozenset({"dispatch.inc", "digests.inc"})
Flags = Mapping[str, Sequence[str]]
_INCLUDES = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_FOLDERS = re.compile(r"/(?:[^/=]*/)+")


class ConflictError(Exception):
    """The sources, the compiler and the rules above disagree; the text says where."""


@dataclass(frozen=True)
class Compiler:
    """How to ask for dependencies.

    Attributes:
        command: the compiler and what its user adds: target, sysroot, environment flags.
        flags: by variant and for ``frame``, as :func:`declared_flags`.
        foreign: flags that the project sets on other processors only; part of the digest, unknown
            to this compiler.
    """

    command: Sequence[str]
    flags: Flags
    foreign: frozenset[str] = frozenset()

    def closures(self, root: Path, sources: Sequence[str], build: str) -> dict[str, set[str]]:
        """Project files that the compiler reads for each source.

        Raises:
            ConflictError: a source does not preprocess, or includes a file that is neither a system
                header nor below ``native``.
        """
        with tempfile.TemporaryDirectory() as empty:
            for name in GENERATED:
                (Path(empty) / name).touch()
            flags = [flag for flag in self.flags[build] if flag not in self.foreign]
            folders = [root / INCLUDE, (root / sources[0]).parent, Path(empty)]
            includes = [part for folder in folders for part in ("-I", str(folder))]
            paths = [str(root / source) for source in sources]
            command = [*self.command, *flags, *includes, "-MM", *paths]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ConflictError(f"the compiler names no dependencies ({build}):\n{done.stderr}")
            rules = [_project_files(rule, root, Path(empty)) for rule in make_rules(done.stdout)]
        found = {source: rule for source in sources for rule in rules if source in rule}
        if found.keys() != set(sources):
            missing = sorted(set(sources) - found.keys())
            raise ConflictError(
                f"the compiler answers for every source ({build}); not for {missing}"
            )
        return found


def make_rules(text: str) -> list[list[str]]:
    """Prerequisites of each rule of a dependency file, unescaped."""
    rules: list[list[str]] = []
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        _, colon, names = line.partition(": ")
        if colon:
            words = re.findall(r"(?:\\[ #]|\S)+", names)
            rules.append([re.sub(r"\\([ #])", r"\1", w).replace("$$", "$") for w in words])
    return rules


def _project_files(names: Sequence[str], root: Path, empty: Path) -> set[str]:
    found: set[str] = set()
    for path in (Path(name).resolve() for name in names):
        if path.parent == empty.resolve():
            continue
        if not path.is_relative_to(root.resolve() / "native"):
            raise ConflictError(
                f"kernels include system headers and headers below native; got {path}"
            )
        found.add(path.relative_to(root.resolve()).as_posix())
    return found


def written_closure(root: Path, source: str) -> set[str]:
    """The source and every project header that the text includes, whatever stands around it.

    An include that names no file of the project is left out: the compiler refuses it.
    """
    found: set[str] = set()
    waiting = [source]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for include in _INCLUDES.findall((root / name).read_bytes()):
            folders = (Path(name).parent, Path(INCLUDE), Path(source).parent)
            paths = ((folder / include.decode("utf-8", "replace")) for folder in folders)
            waiting += [path.as_posix() for path in paths if (root / path).is_file()][:1]
    return found


def text_digest(content: bytes) -> str:
    """SHA-256 of a text with LF line ends."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def canonical(value: object) -> bytes:
    """The one JSON text of a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def declared_flags(root: Path) -> dict[str, list[str]]:
    """Flags that CMakeLists.txt sets for a release build: by variant, ``frame`` and ``link``.

    Raises:
        ConflictError: one of the four settings is not there.
    """
    text = (root / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
    names = (
        "CMAKE_CXX_STANDARD",
        "CMAKE_CXX_FLAGS_RELEASE",
        "RETRO_KERNEL_FLAGS",
        "RETRO_AVX2_FLAGS",
    )
    values: dict[str, list[str]] = {}
    for name in names:
        found = re.search(rf"^\s*set\({name}\s+([^)]*)\)", text, re.MULTILINE)
        if found is None:
            raise ConflictError(f"CMakeLists.txt sets {name}; found no such line")
        values[name] = found[1].replace('"', "").split()
    standard, optimisation, kernel, avx2 = (values[name] for name in names)
    base = [f"-std=c++{standard[0]}", *optimisation]
    extra = {"portable": [], "avx2": avx2}
    flags = {v: [*base, f"-DRETRO_VARIANT={v}", *kernel, *extra[v]] for v in VARIANTS}
    return {**flags, "frame": [*base, *kernel], "link": []}


def row_digests(
    backend: str, root: Path = ROOT, compiler: Compiler | None = None
) -> dict[str, str]:
    """The digest of every row of a backend.

    Args:
        backend: such as ``cpu``.
        root: the checkout.
        compiler: asked for closures and holding the flags of the build; None computes from the
            text of the checkout and its declared flags, which gives the same.

    Raises:
        ConflictError: see :class:`Compiler` and the module's text.
    """
    rows = read_rows(backend, root / "src" / "retrograd" / "rows.toml")
    kernels = {row.op: f"native/{backend}/{row.op}.cpp" for row in rows}
    frame = [f"native/{backend}/{name}.cpp" for name in sorted(CPU_FRAME)]
    closures = {source: written_closure(root, source) for source in [*kernels.values(), *frame]}
    if compiler is not None:
        for variant in VARIANTS:
            _agree(compiler.closures(root, list(kernels.values()), variant), closures)
        _agree(compiler.closures(root, frame, "frame"), closures)
    flags = _hashed(declared_flags(root) if compiler is None else compiler.flags)
    below = set[str]().union(*(closures[source] for source in frame))
    names = below.union(*closures.values())
    files = {name: text_digest((root / name).read_bytes()) for name in names}
    bound = bindings(rows)
    digests: dict[str, str] = {}
    for row in rows:
        closure = {name: files[name] for name in closures[kernels[row.op]] | below}
        rest = {"flags": flags, "binding": bound[row.symbol]}
        record = {"schema": 1, "row": row.id, "files": closure, **rest}
        digests[row.id] = hashlib.sha256(canonical(record)).hexdigest()
    return digests


def bindings(rows: Sequence[Row]) -> dict[str, list[tuple[int, str]]]:
    """By symbol, the lines of the dispatch table that name it, each with its place.

    Places are counted within the list a line stands in, from the row's place in the first list: ids
    and kernels are joined by place, and a row added elsewhere moves all lists alike.
    """
    places: dict[str, list[tuple[int, str]]] = {row.symbol: [] for row in rows}
    place = 0
    for line in dispatch(list(rows)).splitlines():
        place = 0 if line.endswith("{") else place + 1
        for symbol in places.keys() & set(re.findall(r"\w+", line)):
            places[symbol].append((place, line.strip()))
    return {symbol: [(at - e[0][0], line) for at, line in e] for symbol, e in places.items()}


def _agree(compiled: Mapping[str, set[str]], written: Mapping[str, set[str]]) -> None:
    for source, files in compiled.items():
        if files != written[source]:
            only = sorted(files ^ written[source])
            rule = "project headers are included with quotes and outside #if"
            raise ConflictError(f"{source}: {rule}; compiler and text differ in {only}")


def _hashed(flags: Flags) -> dict[str, list[str]]:
    """Without warnings. `-Wl,` and its like hand flags on and stay."""
    return {k: [f for f in v if not f.startswith("-W") or "," in f] for k, v in flags.items()}


def build_text(flags: Flags, environment: Sequence[str]) -> str:
    """All flags of a build in one line for receipts, without the folders of this machine."""
    parts = {**{variant: flags[variant] for variant in VARIANTS}, "environment": environment}
    short = {name: [_FOLDERS.sub("/", flag) for flag in values] for name, values in parts.items()}
    return "; ".join(f"{name}: {' '.join(values)}" for name, values in short.items() if values)


def table(rows: Sequence[Row], digests: Mapping[str, str], flags: str) -> str:
    """The C++ text of ``digests.inc``."""
    lines = ["// Written by native/digests.py from the sources of each row; do not edit."]
    lines.append("namespace retrograd { namespace digest {")
    lines += [f'static constexpr const char* {row.symbol} = "{digests[row.id]}";' for row in rows]
    lines.append("} }")
    lines.append(f"static constexpr const char* kFlags = {json.dumps(flags)};")
    return "\n".join(lines) + "\n"


def _split(text: str) -> list[str]:
    """A CMake list; a target without definitions gives a bare ``-D``."""
    return [part for part in text.split(";") if part not in {"", "-D"}]


def main() -> int:
    """Writes ``digests.inc``; 1 and a message when the sources break a rule."""
    parser = argparse.ArgumentParser(description="Writes digests.inc; lists are CMake lists.")
    parser.add_argument("backend")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--base", required=True, help="standard and optimisation of every object")
    parser.add_argument("--environment", default="", help="flags set by whoever builds")
    parser.add_argument("--foreign", default="", help="flags of avx2 on other processors")
    names = (*VARIANTS, "frame", "link")
    for name in names:
        parser.add_argument(f"--{name}", required=True, help="flags of the target")
    options = parser.parse_args()
    base, foreign = _split(options.base), _split(options.foreign)
    flags = {name: [*base, *_split(getattr(options, name))] for name in names}
    flags["link"] = flags["link"][len(base) :]
    flags["avx2"] += foreign
    environment = _split(options.environment)
    compiler = Compiler([*_split(options.compiler), *environment], flags, frozenset(foreign))
    try:
        digests = row_digests(options.backend, ROOT, compiler)
    except ConflictError as conflict:
        sys.stderr.write(f"error: {conflict}\n")
        return 1
    rows = read_rows(options.backend)
    used = {name: [flag for flag in flags[name] if flag not in foreign] for name in names}
    text = table(rows, digests, build_text(used, environment))
    (options.out / "digests.inc").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
