"""What the installed wheel holds, and what importing it costs. Run by nox against the wheel."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

from house import ROOT

import retrograd
from retrograd import _native
from retrograd.version import VERSION

# Imported where they are used: each costs more than a tenth of a second or reads files.
HEAVY = (
    "gguf",
    "jinja2",
    "matplotlib",
    "pydantic",
    "rich",
    "scipy_openblas32",
    "tokenizers",
    "typer",
)


def test_the_wheel_is_what_is_tested() -> None:
    assert not Path(str(retrograd.__file__)).is_relative_to(ROOT / "src")


def test_version_is_written_once() -> None:
    assert importlib.metadata.version("retrograd") == VERSION


def test_wheel_holds_the_product_and_no_planted_fault() -> None:
    names = {str(path) for path in importlib.metadata.files("retrograd") or ()}
    wanted = {"rows.toml", "py.typed", "_native.pyi", "libretrograd_cpu.so"}
    assert {f"retrograd/{name}" for name in wanted} <= names
    outside = {name.split("/")[0] for name in names} - {"retrograd", "..", "__pycache__"}
    assert outside == {f"retrograd-{VERSION}.dist-info"}
    assert {name for name in names if "faults" in name} == set()


def test_import_leaves_heavy_libraries_alone() -> None:
    script = f"import sys, retrograd; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_native_stub_says_what_the_module_has() -> None:
    stub = ast.parse((ROOT / "src" / "retrograd" / "_native.pyi").read_text(encoding="utf-8"))
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    typed_dicts = {
        name for name, node in classes.items() if "TypedDict" in map(ast.unparse, node.bases)
    }
    compiled = {name for name, value in vars(_native).items() if isinstance(value, type)}
    assert set(classes) - typed_dicts == compiled
    for name in compiled:
        declared = {n.name for n in classes[name].body if isinstance(n, ast.FunctionDef)}
        present = {n for n in vars(getattr(_native, name)) if not n.startswith("_pybind")}
        hidden = {n for n in present if n.startswith("__") and n not in declared}
        assert declared == present - hidden, name
