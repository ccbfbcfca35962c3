"""A checkout of its own, with history, receipts and library, for tests of the whole chain."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from house import ROOT

import retrograd
from lanes.environment import probe
from retrograd.backends import library_path

FOLDERS = ("src", "native", "lanes", "oracles", "fixtures", "matrix", "reports/templates")
FILES = (".gitignore", "CMakeLists.txt", "pyproject.toml", "conftest.py", "README.md", "LICENSE")
BUILT = shutil.ignore_patterns("*.so", "__pycache__", "table.json")
REVIEWER = "reviewer@example.org"
ENVIRONMENT = """
[[environment]]
class = "{class}"
toolchain = "{toolchain}"
backend = "cpu"
lanes = [{lanes}]
plan = "fast"
hardware = "this machine"
command = "python -m lanes run {{lane}}"
"""


class Checkout:
    """A copy of the tree that promises a sample of each lane on this machine, and nothing else.

    Args:
        root: where it goes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in FOLDERS:
            shutil.copytree(ROOT / name, root / name, ignore=BUILT)
        for name in FILES:
            shutil.copy(ROOT / name, root / name)
        found = probe()
        lanes = sorted(path.stem for path in (root / "lanes" / "suite").glob("[a-z]*.py"))
        names = ", ".join(f'"{name}"' for name in lanes)
        text = ENVIRONMENT.format(lanes=names, **{k: found[k] for k in ("class", "toolchain")})
        (root / "matrix" / "environments.toml").write_text(text, encoding="utf-8")
        package = Path(retrograd.__file__).parent
        # The library of these sources is there already, whoever compiled it.
        for path in (*package.glob("_native*.so"), Path(library_path("cpu"))):
            shutil.copy(path, root / "src" / "retrograd")
        self.git("init", "--quiet")
        self.commit("a tree")

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables under which this tree's package is the one that is imported, and no overlay."""
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.root / "src"), str(self.root)]),
            "OPENBLAS_NUM_THREADS": "1",
            "HOME": str(self.root.parent),
            "XDG_CACHE_HOME": str(self.root.parent / "cache"),
            "XDG_DATA_HOME": str(self.root.parent / "data"),
            "XDG_STATE_HOME": str(self.root.parent / "state"),
        }

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.root), *who, *arguments]
        subprocess.run(command, capture_output=True, check=True)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def python(self, *arguments: str) -> tuple[int, str]:
        """Exit status and everything that ``python -m`` with these arguments prints."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def build(self) -> None:
        """Compiles the CPU library of this tree and puts it in place of the present one."""
        folder = self.root / "build" / "native"
        where = [sys.executable, "-m", "pybind11", "--cmakedir"]
        pybind11 = subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
        settings = (f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}")
        configure = ("cmake", "-S", str(self.root), "-B", str(folder), "-G", "Ninja", *settings)
        build = ("cmake", "--build", str(folder), "--target", "retrograd_cpu")
        for command in (configure, build):
            subprocess.run(command, capture_output=True, check=True)
        library = "libretrograd_cpu.so"
        shutil.copy(folder / library, self.root / "src" / "retrograd" / library)

    def sign(self, version: str, digest: str) -> None:
        """Signs a digest for a release with a key made for this, and lets its owner sign."""
        key = self.root.parent / "key"
        if not key.exists():
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", REVIEWER, "-f", str(key)]
            subprocess.run(make, check=True)
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        reports = self.root / "reports"
        signers = f'{REVIEWER} namespaces="retrograd-release" {public}'
        (reports / "allowed_signers").write_text(signers, encoding="utf-8")
        (reports / "releases").mkdir(exist_ok=True)
        who = f'reviewer = "{REVIEWER}"\ndate = "2026-11-29"\n'
        (reports / "releases" / f"{version}.toml").write_text(who, encoding="utf-8")
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "retrograd-release", "-f", str(key)]
        done = subprocess.run(command, input=digest.encode(), capture_output=True, check=True)
        (reports / "releases" / f"{version}.sig").write_bytes(done.stdout)
