"""Random one-byte edits: no affected row keeps its digest, and few others change theirs.

What an edit affects comes from ``digest_trees``, never from the code under test.
"""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from digest_trees import MACHINE, Affected, affected, copy_tree, row_entries, table_lines

from lanes.digests import Sources, current_digests
from native.digests import declared_flags, row_digests
from retrograd._native import Library

SEED = 20260
EDITS = {"fast": 20, "full": 200}
REBUILDS = 10
UNAFFECTED_SHARE = 0.05
ROWS = "src/retrograd/rows.toml"
GENERATOR = "native/generate.py"
# What computes digests. A broken one leaves no row with a digest, whatever the row stands on: a
# sample of twenty edits, of which one alone is the allowed share, is drawn from the other files.
TOOLS = frozenset(
    {"native/digests.py", "lanes/digests.py", "lanes/lane_rows.py", "lanes/results.py"}
)
# Edits of these show only in a process that runs the tree's own code.
OWN_CODE = TOOLS | {GENERATOR}
SUFFIXES = frozenset({".cpp", ".h", ".py", ".pyi", ".toml", ".md"})
PRINTABLE = bytes(range(32, 127)) + b"\n"


@dataclass
class Tally:
    """Row digests over all edits: how many of each kind there were, and which are wrong."""

    affected: int = 0
    unaffected: int = 0
    changed: int = 0
    kept: list[str] = field(default_factory=list[str])


def edited(path: Path, draw: random.Random) -> bytes:
    """The file with one byte at a random place replaced by another printable one."""
    content = bytearray(path.read_bytes())
    at = draw.randrange(len(content))
    content[at] = draw.choice([byte for byte in PRINTABLE if byte != content[at]])
    return bytes(content)


def candidates(tree: Path) -> list[Path]:
    """Every source file, whether or not a row stands on it."""
    return [p for p in sorted(tree.rglob("*")) if p.suffix in SUFFIXES and p.stat().st_size]


def rows_of(tree: Path, name: str = "") -> dict[str, str]:
    """Digests of a tree with this file edited; none where the code that computes them is broken."""
    if name in OWN_CODE:
        command = [sys.executable, "-B", "-m", "lanes.digests", "--json"]
        run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        return {row: str(d["row"]) for row, d in json.loads(run.stdout or "{}").items()}
    try:
        return {row: digests["row"] for row, digests in current_digests(Sources(tree)).items()}
    except (ValueError, KeyError, TypeError, OSError):
        return {}


def declared_otherwise(tree: Path, entries: dict[str, dict[str, object]]) -> set[str]:
    """Rows whose declaration is not what it was: all of them when the file is broken."""
    try:
        present = row_entries(tree)
    except (ValueError, KeyError, TypeError):
        return set(entries)
    changed = {row for row in entries if present.get(row) != entries[row]}
    # A row is bound to a kernel by its id: an op without one leaves nothing that could be built.
    known = {str(entry["op"]) for entry in entries.values()}
    return changed if {str(e["op"]) for e in present.values()} <= known else set(entries)


def count(
    tally: Tally, where: str, before: dict[str, str], after: dict[str, str], hit: set[str]
) -> None:
    """Adds one edit."""
    changed = {row for row in before if after.get(row) != before[row]}
    tally.affected += len(hit)
    tally.unaffected += len(before) - len(hit)
    tally.changed += len(changed - hit)
    tally.kept += [f"{where}: {row}" for row in sorted(hit - changed)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def stands(tree: Path) -> Affected:
    return affected(tree)


def test_random_edits_make_the_affected_rows_stale(tree: Path, stands: Affected, plan: str) -> None:
    before, entries, table = rows_of(tree), row_entries(tree), table_lines(tree)
    draw, tally = random.Random(SEED), Tally()
    files = candidates(tree)
    if plan == "fast":
        files = [path for path in files if path.relative_to(tree).as_posix() not in TOOLS]
    for path in draw.choices(files, k=EDITS[plan]):
        name, content = path.relative_to(tree).as_posix(), path.read_bytes()
        path.write_bytes(edited(path, draw))
        hit = declared_otherwise(tree, entries) if name == ROWS else stands.all_rows(name)
        if name == GENERATOR:
            present = table_lines(tree)
            hit = {row for row in table if present.get(row) != table[row]}
        count(tally, name, before, rows_of(tree, name), hit)
        path.write_bytes(content)
    sys.stdout.write(f"{EDITS[plan]} edits: {tally}\n")
    assert before
    assert tally.kept == []
    assert tally.affected > len(before)
    assert tally.unaffected > len(before)
    assert tally.changed <= UNAFFECTED_SHARE * tally.unaffected


class Build:
    """A real build of a copied tree, repeated after every edit."""

    def __init__(self, tree: Path) -> None:
        self.tree, self.folder, self.count = tree, tree / "build", 0
        where = [sys.executable, "-m", "pybind11", "--cmakedir"]
        pybind11 = subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
        settings = (f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}")
        command = ("cmake", "-S", str(tree), "-B", str(self.folder), "-G", "Ninja", *settings)
        subprocess.run(command, capture_output=True, check=True)

    def digests(self) -> dict[str, str] | None:
        """What the library carries after a build; None when the sources do not compile."""
        command = ("cmake", "--build", str(self.folder), "--target", "retrograd_cpu")
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        # A library that is loaded under the same name again would be the old one.
        self.count += 1
        copy = self.folder / f"library{self.count}.so"
        shutil.copy(self.folder / "libretrograd_cpu.so", copy)
        return Library(str(copy)).digests()


def compiles(tree: Path, stands: Affected, name: str) -> bool:
    """Whether a kernel that the file stands behind is still C++: saves rebuilds that must fail."""
    ops = [op for op, files in stands.kernels.items() if name in files]
    sources = [f"native/cpu/{op}.cpp" for op in ops[:1] if (tree / name).suffix != ".py"]
    sources += [name] if name.endswith(("backend.cpp", "pool.cpp")) else []
    folders = ("-Inative/include", "-Inative/cpu", "-Ibuild/generated/cpu")
    flags = ("-std=c++17", "-DRETRO_VARIANT=avx2", *MACHINE["avx2"], *folders, "-fsyntax-only")
    command = ("g++", *flags, *sources)
    return not sources or subprocess.run(command, cwd=tree, capture_output=True).returncode == 0


def built_edits(
    tree: Path, stands: Affected, draw: random.Random
) -> Iterator[tuple[str, set[str]]]:
    """Edits of native files that may compile, each in place until the next is asked for."""
    names = sorted(set[str]().union(*stands.kernels.values()))
    while True:
        path = tree / (name := draw.choice(names))
        content = path.read_bytes()
        path.write_bytes(edited(path, draw))
        if compiles(tree, stands, name):
            yield name, stands.kernel_rows(name)
        path.write_bytes(content)


def build_step(tree: Path) -> dict[str, str]:
    """What the step of the build that writes the digests gives, run as CMake runs it."""
    flags = {name: ";".join(values) for name, values in declared_flags(tree).items()}
    lists = [f"--{name}={flags[name]}" for name in flags]
    command = [sys.executable, "-B", "-m", "native.digests", "cpu", "--out", str(tree)]
    command += ["--compiler=g++", "--base=", "--environment=-O1;-DUSER=1", *lists]
    subprocess.run(command, cwd=tree, check=True)
    text = (tree / "digests.inc").read_text("utf-8")
    assert "environment: -O1 -DUSER=1" in text
    found = dict(re.findall(r'(\w+) = "([0-9a-f]{64})"', text))
    return {row: found[re.sub(r"[.-]", "_", row)] for row in row_entries(tree)}


@pytest.mark.exhaustive
def test_built_libraries_carry_the_digests_of_their_sources(
    tree: Path, stands: Affected, plan: str
) -> None:
    before = build_step(tree)
    assert before == row_digests("cpu", tree)
    name, tally = "native/cpu/softmax.h", Tally()
    content = (tree / name).read_bytes()
    (tree / name).write_bytes(content + b"\n")
    count(tally, name, before, build_step(tree), stands.kernel_rows(name))
    (tree / name).write_bytes(content)
    assert (tally.kept, tally.changed) == ([], 0)
    assert tally.affected > 0
    if plan == "full":
        rebuild(tree, stands)


def rebuild(tree: Path, stands: Affected) -> None:
    """Real builds: after edits of one byte, and after a change of the project's flags."""
    build = Build(tree)
    before = build.digests()
    assert before is not None
    assert before == row_digests("cpu", tree)
    tally, done, refused = Tally(), 0, 0
    for name, hit in built_edits(tree, stands, random.Random(SEED)):
        after = build.digests()
        refused += after is None
        if after is not None:
            done += 1
            count(tally, name, before, after, hit)
            assert after == row_digests("cpu", tree), name
            sys.stdout.write(f"rebuilt {name}: {len(hit)} rows affected\n")
        if done == REBUILDS:
            break
    sys.stdout.write(f"{done} rebuilt, {refused} refused by the compiler: {tally}\n")
    assert tally.kept == []
    assert tally.affected > 0
    assert tally.changed <= UNAFFECTED_SHARE * tally.unaffected
    flags = tree / "CMakeLists.txt"
    flags.write_text(flags.read_text("utf-8").replace('"-O3"', '"-O2"'), "utf-8")
    slower = build.digests()
    assert slower is not None
    assert slower == row_digests("cpu", tree)
    assert all(slower[row] != before[row] for row in before)
