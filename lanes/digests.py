"""Digests of everything that stands behind the evidence of a row, computed from the checkout.

``python -m lanes.digests --json`` prints, for every declared row and for every row that a lane adds
(``lanes/lane_rows.py``), ``{row id: {"kernel", "op", "oracle", "cases", "row"}}``, each a SHA-256
in hex. For declared rows they cover:

- ``kernel``: the row's sources, headers and project flags, see ``native/digests.py``. The library
  carries the same value; ``--library`` names the rows for which it does not, with exit status 2.
- ``op``: the row's own entry in ``rows.toml`` (contract, faults, limits) and
  ``retrograd.ops.<op>`` with what it imports from ``retrograd``.
- ``oracle``: ``oracles.ops.<op>`` and ``oracles.pinned.<op>`` with what they import from
  ``oracles``.
- ``cases``: ``lanes.cases.<op>``, ``lanes.cases.regressions`` and ``lanes.catalogue`` with what
  they import from ``lanes``, ``oracles`` and ``retrograd.formats``.
- the comparator, one for all rows: ``lanes.trial``, which executes and judges, with what it imports
  from ``lanes``, and ``retrograd.runtime.launch``, which packs the arguments.
- ``row``: the row's id, the four above and the comparator. This one is a receipt's subject.

So an edit makes stale exactly the rows whose closure holds the file: a header that three kernels
include, the rows of these three; an oracle, the rows of its op; ``lanes/comparator.py``, all.

A closure follows import statements wherever they stand in a file, each to the module it names. The
``__init__`` of a package is part of it only where a name is imported from it: a package that lists
all ops would otherwise tie every row to every op, and nothing works at import. A data file is part
of it when a module names it in one string, relative to its own folder or to the checkout, unless it
is a result, as the table is (``lanes/results.py``). Files are hashed with LF line ends, data other
than JSON and TOML as it is.

Not covered: bounds (the reduction compares the observed errors with the present ones), the lanes'
bookkeeping (receipts, plans, exits), compiler, BLAS and device (environment).
"""

import argparse
import ast
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from lanes.results import is_generated
from native.digests import canonical, row_digests, text_digest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/retrograd/"
ROWS = PACKAGE + "rows.toml"
# Top-level packages of the project and the folders that hold them.
_FOLDERS = {"retrograd": "src/", "lanes": "", "oracles": "", "fixtures": "", "native": ""}
_TEXT_DATA = (".json", ".toml", ".py")
_DATA_NAME = re.compile(r"[\w./-]+\.(json|toml|npz|npy|bin|gguf)")
_CASES_WITHIN = ("lanes/", "oracles/", PACKAGE + "formats/")
_COMPARATOR_WITHIN = ("lanes/", PACKAGE + "runtime/launch.py")
# What turns a comparison into a verdict; its imports keep books and judge nothing.
_VERDICTS = ("lanes/suite/ops.py", "lanes/verdict.py")
Record = Mapping[str, object]


class RowDigests(TypedDict):
    """The digests of one row."""

    kernel: str
    op: str
    oracle: str
    cases: str
    row: str


class Sources:
    """The files of a checkout.

    Args:
        root: the checkout.
        package: folder of the package ``retrograd`` when it is installed elsewhere. Its files are
            named as in the checkout, so an installation of an unchanged tree has its digests.

    Every file is looked at once: an instance is the state of the tree when it was first asked.
    """

    def __init__(self, root: Path = ROOT, package: Path | None = None) -> None:
        self.root = root
        self.package = package or root / PACKAGE
        self._seen: dict[str, bytes | None] = {}
        self._digests: dict[str, str] = {}

    def text(self, name: str) -> bytes | None:
        """Content of a file of the project, by its path below the checkout; None without one."""
        if name not in self._seen:
            inside = name.removeprefix(PACKAGE)
            path = self.package / inside if name != inside else self.root / name
            self._seen[name] = path.read_bytes() if path.is_file() else None
        return self._seen[name]

    def closure(self, modules: Iterable[str], within: tuple[str, ...]) -> set[str]:
        """Names of all files that these modules and their imports stand on, of those ``within``."""
        found: set[str] = set()
        waiting = [name for module in modules if (name := self._file(module))]
        while waiting:
            name = waiting.pop()
            if name in found or not name.startswith(within):
                continue
            found.add(name)
            imports, strings = _read(self.text(name) or b"", name)
            for module, imported in imports:
                target = (imported and self._file(f"{module}.{imported}")) or self._file(module)
                waiting += [target] if target else []
            found |= {data for text in strings if (data := self._data(name, text))}
        return found

    def digest(self, names: Iterable[str], **more: object) -> str:
        """SHA-256 over names and contents of files, and over whatever else is given."""
        files = {name: self._content(name) for name in names}
        return _sha256({"schema": 1, "files": files, **more})

    def _content(self, name: str) -> str:
        if name not in self._digests:
            content = self.text(name) or b""
            is_text = name.endswith(_TEXT_DATA)
            self._digests[name] = text_digest(content) if is_text else _sha256_of(content)
        return self._digests[name]

    def _file(self, module: str) -> str | None:
        top, *parts = module.split(".")
        if top not in _FOLDERS:
            return None
        stem = "/".join([_FOLDERS[top] + top, *parts])
        names = (f"{stem}.py", f"{stem}/__init__.py")
        return next((name for name in names if self.text(name) is not None), None)

    def _data(self, name: str, text: str) -> str | None:
        names = ((Path(name).parent / text).as_posix(), text)
        # Results are made from evidence: one that counted as its source would make it stale.
        here = (n for n in names if not is_generated(n) and self.text(n) is not None)
        return next(here, None)


@lru_cache(maxsize=1024)
def _read(text: bytes, name: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Imports of a file, as module and imported name, and strings that may name data.

    A file that does not parse imports nothing: its content still counts.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return [], []
    nodes = list(ast.walk(tree))
    strings = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return list(_imports(nodes, name)), [s for s in strings if _DATA_NAME.fullmatch(s)]


def _imports(nodes: Iterable[ast.AST], name: str) -> Iterator[tuple[str, str | None]]:
    package = name.removeprefix("src/").split("/")[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def declarations(sources: Sources) -> dict[str, Record]:
    """Every row's own entry of ``rows.toml`` by id, one dtype each."""
    document = tomllib.loads((sources.text(ROWS) or b"").decode("utf-8"))
    rows = [{**entry, "dtype": dtype} for entry in document["row"] for dtype in entry["dtype"]]
    return {f"{r['op']}.{r['direction']}.{r['dtype']}.{r['backend']}": r for r in rows}


def comparator_digest(sources: Sources | None = None) -> str:
    """Digest of what executes and judges every case."""
    sources = sources or Sources()
    modules = ("lanes.trial", "retrograd.runtime.launch")
    return sources.digest(sources.closure(modules, _COMPARATOR_WITHIN) | set(_VERDICTS))


def current_digests(
    sources: Sources | None = None, *, kernels: Mapping[str, str] | None = None
) -> dict[str, RowDigests]:
    """The digests of every declared row.

    Args:
        sources: the checkout; default: the one this file lies in.
        kernels: digests that a library carries (``Device.digests``); default: those that a build
            of the checkout would carry. Rows that it lacks are left out.
    """
    sources = sources or Sources()
    rows = declarations(sources)
    if kernels is None:
        backends = sorted({str(row["backend"]) for row in rows.values()})
        kernels = {k: v for b in backends for k, v in row_digests(b, sources.root).items()}
    comparator = comparator_digest(sources)
    ops = {str(row["op"]) for row in rows.values()}
    oracles = {op: _oracle(sources, op) for op in ops}
    cases = {op: _cases(sources, op) for op in ops}
    files = {op: sources.closure([f"retrograd.ops.{op}"], (PACKAGE,)) for op in ops}
    result: dict[str, RowDigests] = {}
    for row_id, row in rows.items():
        op = str(row["op"])
        if row_id in kernels:
            described = sources.digest(files[op], declaration=row)
            parts = (kernels[row_id], described, oracles[op], cases[op])
            result[row_id] = _combined(row_id, parts, comparator)
    return result


def _oracle(sources: Sources, op: str) -> str:
    modules = (f"oracles.ops.{op}", f"oracles.pinned.{op}")
    return sources.digest(sources.closure(modules, ("oracles/",)))


def _cases(sources: Sources, op: str) -> str:
    modules = (f"lanes.cases.{op}", "lanes.cases.regressions", "lanes.catalogue")
    return sources.digest(sources.closure(modules, _CASES_WITHIN))


def _combined(row_id: str, parts: tuple[str, str, str, str], comparator: str) -> RowDigests:
    kernel, op, oracle, cases = parts
    record = {"kernel": kernel, "op": op, "oracle": oracle, "cases": cases}
    row = row_digest(row_id, record, comparator)
    return RowDigests(kernel=kernel, op=op, oracle=oracle, cases=cases, row=row)


def row_digest(row_id: str, parts: Mapping[str, str], comparator: str) -> str:
    """The combination that a receipt names as its subject.

    Args:
        row_id: the row.
        parts: ``kernel``, ``op``, ``oracle`` and ``cases``; further keys are left out.
        comparator: digest of the comparator.
    """
    named = {name: parts[name] for name in ("kernel", "op", "oracle", "cases")}
    return _sha256({"schema": 1, "id": row_id, "comparator": comparator, **named})


def fixture_digests(sources: Sources | None = None) -> dict[str, str]:
    """SHA-256 of every fixture: pinned ones by recipe, stored data by path."""
    sources = sources or Sources()
    folder = sources.root / "fixtures"
    document = tomllib.loads((folder / "digests.toml").read_text(encoding="utf-8"))
    pinned = {f"tiny/{name}": str(value) for name, value in document["tiny"].items()}
    pinned["real_model"] = str(document["real_model"]["sha256"])
    stored = sorted(path for path in folder.rglob("*") if _is_data(path))
    names = (path.relative_to(sources.root).as_posix() for path in stored)
    return pinned | {name: _sha256_of(sources.text(name) or b"") for name in names}


def _is_data(path: Path) -> bool:
    """Text is checked out with the line ends of the machine, so only what is binary is stored."""
    return path.is_file() and path.suffix in {".npz", ".npy", ".bin", ".gguf"}


def differing(library: Mapping[str, str], rows: Mapping[str, RowDigests]) -> list[str]:
    """Rows that a library lacks, has in excess, or was built for from other sources."""
    names = sorted(library.keys() | rows.keys())
    return [n for n in names if n not in rows or library.get(n) != rows[n]["kernel"]]


def _sha256(value: object) -> str:
    return _sha256_of(canonical(value))


def _sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(arguments: list[str]) -> int:
    """Prints digests; 2 when a library was asked for and is not that of the checkout."""
    parser = argparse.ArgumentParser(prog="python -m lanes.digests")
    parser.add_argument("--json", action="store_true", help="print the digests of every row")
    parser.add_argument("--library", action="store_true", help="compare with the built library")
    options = parser.parse_args(arguments)
    from lanes.lane_rows import lane_row_digests  # which stands on this module

    sources = Sources()
    rows = current_digests(sources)
    every = {**rows, **lane_row_digests(sources)}
    if options.json:
        print(json.dumps(every, indent=1, sort_keys=True))
    else:
        print("\n".join(f"{row_id} {digests['row']}" for row_id, digests in every.items()))
    if not options.library:
        return 0
    from retrograd.backends import open_device

    stale = differing(open_device(threads=1).digests, rows)
    for row_id in stale:
        sys.stderr.write(f"{row_id}: the library was built from other sources\n")
    return 2 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
