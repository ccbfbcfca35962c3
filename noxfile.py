"""The only entry to building, testing, measuring and showing retrograd; ``nox -l`` lists it.

Nothing but Python, a C++ compiler and git has to be there: every session installs what it needs
from PyPI into its own environment under ``.nox``. The wheel is compiled once per state of its
sources and shared by all sessions; an environment is touched again only when that state or its
list of packages changes. A session's verdict is the exit status of what it starts, never nox's
own report.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["fast"]
nox.options.error_on_missing_interpreters = True

Wheel = Callable[[nox.Session], Path]

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
# Everything that can change what is inside the wheel.
WHEEL_SOURCES = ("src", "native", "CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE")
BUILD_VARIABLES = frozenset({"CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS"})
KEPT_WHEELS = 4
RERUN = "run the session without --no-install"
IGNORED_SUFFIXES = frozenset({".so", ".pyc"})
CPP_SUFFIXES = frozenset({".h", ".cpp", ".cu", ".cuh"})
PYTEST = ("python", "-m", "pytest")
LANES = ("python", "-m", "lanes")
MATRIX = ("python", "-m", "matrix")
LANE_NAMES = sorted(path.stem for path in (ROOT / "lanes" / "suite").glob("[a-z]*.py"))
# Judges the product by the table, so it runs once the table says what the other lanes showed.
JUDGING_LANE = "admission"
# Of runs that are no evidence to be committed.
LOCAL_RECEIPTS = ("--out", str(BUILD / "receipts"))
# The oracles' float64 products are small: threads of their own cost them more than they gain.
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
# Two workers, one process each: the machines this has to be quick on have two cores.
WORKERS = ("-n", "2")


@contextmanager
def step(name: str) -> Generator[None]:
    """Prints how long a part of a session took, in a form that scripts can read."""
    start = time.monotonic()
    yield
    print(f"step={name.replace(' ', '_')} duration={time.monotonic() - start:.1f}s", flush=True)


def sources(*names: str) -> list[Path]:
    """The files under these names of the project, without build products, in a fixed order."""
    found: list[Path] = []
    for name in names:
        path = ROOT / name
        found += [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [path for path in found if path.suffix not in IGNORED_SUFFIXES]


def state(*parts: str) -> str:
    """A digest of the wheel's sources, the interpreter and whatever else decides a build."""
    settings = {key: value for key, value in os.environ.items() if key in BUILD_VARIABLES}
    digest = hashlib.sha256(repr((sys.version, sorted(settings.items()), *parts)).encode())
    for path in sources(*WHEEL_SOURCES):
        digest.update(repr((str(path.relative_to(ROOT)), path.stat().st_size)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def built_wheel(session: nox.Session) -> Path:
    """The wheel of the present sources; compiled incrementally unless it is there already."""
    return _wheel(session, BUILD / "wheels" / state(), ".", "--no-build-isolation")


def wheel_from_sdist(session: nox.Session) -> Path:
    """The wheel as a user builds it: from the source distribution, with build isolation."""
    folder = BUILD / "wheels" / state("sdist")
    if not any(folder.glob("*.whl")):
        shutil.rmtree(BUILD / "sdist", ignore_errors=True)
        script = "import scikit_build_core.build as b, sys; b.build_sdist(sys.argv[1])"
        session.run_install("python", "-c", script, str(BUILD / "sdist"), silent=True)
    return _wheel(session, folder, *map(str, (BUILD / "sdist").glob("*.tar.gz")))


def _wheel(session: nox.Session, folder: Path, *arguments: str) -> Path:
    if not any(folder.glob("*.whl")):
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        pip = ("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(part))
        session.run_install(*pip, *arguments)
        # Renamed only when complete, so that an interrupted build is never taken for a wheel.
        if part.exists():
            part.rename(folder)
        for old in sorted(folder.parent.iterdir(), key=lambda p: p.stat().st_mtime)[:-KEPT_WHEELS]:
            shutil.rmtree(old)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        session.error(f"[build] one wheel of these sources exists; got {len(wheels)}; {RERUN}")
    return wheels[0]


def _is_stamped(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def _stamp(session: nox.Session, stamp: Path, wanted: str) -> None:
    # Written by an installation step, so that nox's --no-install skips it together with the
    # steps that it stands for. What is then found is an old state, and no test may run on that.
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2], 'utf-8')"
    session.run_install("python", "-c", script, str(stamp), wanted, silent=True, log=False)
    if not _is_stamped(stamp, wanted):
        session.error(f"[build] the environment holds the present sources; got older ones; {RERUN}")


def install(session: nox.Session, *groups: str, wheel: Wheel | None = built_wheel) -> None:
    """Brings the session's environment to the present wheel and these dependency groups.

    Args:
        session: the session.
        groups: dependency groups of pyproject.toml.
        wheel: what builds the wheel to install; None installs only what it depends on.
    """
    needed = [*PROJECT["project"]["dependencies"], *nox.project.dependency_groups(PROJECT, *groups)]
    stamp = Path(session.virtualenv.location) / "retrograd.stamp"
    wanted = repr((needed, wheel.__name__, state()) if wheel else needed)
    if _is_stamped(stamp, wanted):
        return
    stamp.unlink(missing_ok=True)
    session.install("-q", *needed)
    if wheel:
        session.install("-q", "--no-deps", "--force-reinstall", str(wheel(session)))
    _stamp(session, stamp, wanted)


def faults_library(session: nox.Session) -> dict[str, str]:
    """Builds the test library that holds planted faults; returns the variable that names it."""
    folder = BUILD / "faults"
    library = folder / "libretrograd_cpu_faults.so"
    stamp = folder / "retrograd.stamp"
    if not (library.exists() and _is_stamped(stamp, state())):
        stamp.unlink(missing_ok=True)
        where = "import pybind11; print(pybind11.get_cmake_dir())"
        pybind11 = session.run_install("python", "-c", where, silent=True, log=False)
        configure = (
            *("cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"),
            "-DCMAKE_BUILD_TYPE=Release",
            "-DRETRO_FAULTS=ON",
            f"-Dpybind11_DIR={str(pybind11).strip()}",
            f"-DPython_EXECUTABLE={shutil.which('python', path=session.bin)}",
        )
        session.run_install(*configure, silent=True)
        build = ("cmake", "--build", str(folder), "--target", "retrograd_cpu_faults")
        session.run_install(*build, silent=True)
        _stamp(session, stamp, state())
    return {"RETRO_FAULTS_LIBRARY": str(library)}


def prepare(session: nox.Session, wheel: Wheel = built_wheel) -> dict[str, str]:
    """Installs the wheel and what tests need; returns the variables that they run with."""
    with step("install"):
        install(session, "build", "test", wheel=wheel)
    with step("faults library"):
        return ONE_BLAS_THREAD | faults_library(session)


@nox.session
def fast(session: nox.Session) -> None:
    """Test every commit: all logic and a fixed sample of each lane's plan, without a download."""
    env = prepare(session)
    if session.posargs:
        # What a filter of pytest leaves can fail and verifies nothing, so no lane is judged by it.
        session.run(*PYTEST, "--plan=fast", *WORKERS, *session.posargs, env=env)
        return
    with step("tests"):
        session.run(*PYTEST, "--plan=fast", *WORKERS, "tests", env=env)
    with step("lanes"):
        session.run(*LANES, "run", "fast", *WORKERS, *LOCAL_RECEIPTS, env=env)


@nox.session
def cpu(session: nox.Session) -> None:
    """Test everything on the CPU: exhaustive plans, the real model, the wheel a user builds."""
    env = prepare(session, wheel_from_sdist)
    if session.posargs:
        session.run(*PYTEST, "--plan=full", *WORKERS, *session.posargs, env=env)
        return
    with step("tests"):
        session.run(*PYTEST, "--plan=full", *WORKERS, "tests", env=env)
    for name in LANE_NAMES:
        with step(f"lane {name}"):
            run = (*LANES, "run", name, "--plan", "full", *WORKERS, *LOCAL_RECEIPTS)
            session.run(*run, env=env)
    with step("real model"):
        session.run("python", "examples/demo.py", "--out", str(BUILD / "runs"))


@nox.session
def lanes(session: nox.Session) -> None:
    """Start ``python -m lanes`` on the installed wheel: ``nox -s lanes -- run ops --plan full``."""
    session.run(*LANES, *(session.posargs or ["list"]), env=prepare(session))


@nox.session
def evidence(session: nox.Session) -> None:
    """Run every lane that the CPU's environments promise; make the table and its pages of it."""
    env = prepare(session)
    promised = nox.project.load_toml(ROOT / "matrix" / "environments.toml")["environment"]
    variants = [e["class"].partition("-")[2] for e in promised if e["backend"] == "cpu"]
    for judging in (False, True):
        for variant in dict.fromkeys(variants):
            for name in (n for n in LANE_NAMES if (n == JUDGING_LANE) == judging):
                with step(f"{name} {variant}"):
                    run = (*LANES, "run", name, "--plan", "full", *WORKERS)
                    session.run(*run, env=env | {"RETRO_CPU_ISA": variant})
        session.run(*MATRIX, "reduce")
        # The package carries the table, and the lane that follows judges by that one.
        env = prepare(session)
    session.run(*MATRIX, "render")
    session.run(*MATRIX, "walkthrough", env=env)


@nox.session
def matrix(session: nox.Session) -> None:
    """Make the table of the receipts and the pages of the table; ``-- --check`` writes nothing."""
    with step("install"):
        install(session, wheel=None)
    for command in ("reduce", "render"):
        session.run(*MATRIX, command, *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Evaluate the criteria of a release, render its report, check its signature."""
    with step("install"):
        install(session, wheel=None)
    session.run(*MATRIX, "release", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check form: linters, types, import directions, spelling, house rules, generated files."""
    with step("install"):
        install(session, "lint", wheel=None)
    cpp = [str(path.relative_to(ROOT)) for path in sources("native") if path.suffix in CPP_SUFFIXES]
    if "--fix" in session.posargs:
        session.run("ruff", "check", "--fix-only", ".")
        session.run("ruff", "format", ".")
        session.run("clang-format", "-i", *cpp, silent=True)
    with step("ruff"):
        session.run("ruff", "check", ".")
        session.run("ruff", "format", "--check", ".")
    with step("clang-format"):
        session.run("clang-format", "--dry-run", "--Werror", *cpp)
    with step("typos"):
        session.run("typos")
    with step("imports"):
        session.run("lint-imports", "--no-cache", env={"PYTHONPATH": "src"})
    with step("types"):
        session.run("pyright", "--project", "pyproject.toml")
    with step("house rules"):
        # Without conftest.py, which needs the product installed.
        rules = ("tests/test_house_rules.py", "tests/test_prose_claims.py")
        session.run(*PYTEST, "-q", "--noconftest", *rules)
    with step("generated files"):
        session.run(*LANES, "plan", "--check", env={"PYTHONPATH": "src"})
        for command in ("reduce", "render", "walkthrough"):
            session.run(*MATRIX, command, "--check")
    with step("receipts"):
        for receipt in sorted((ROOT / "reports" / "receipts").glob("*/*.json")):
            session.run(*LANES, "verify", str(receipt), env={"PYTHONPATH": "src"}, silent=True)


@nox.session
def demo(session: nox.Session) -> None:
    """Train a real model on a small task and ask it questions: ``nox -s demo [-- --tiny]``."""
    with step("install"):
        install(session, "build")
    session.run("python", "examples/demo.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speed and memory beside peers, on a quiet machine: ``nox -s bench -- cpu``."""
    what, *rest = session.posargs or ["cpu"]
    known = sorted(path.stem for path in (ROOT / "bench").glob("[a-z]*.py"))
    if what not in known:
        session.error(f"[bench] the first argument is one of {', '.join(known)}; got {what}")
    with step("install"):
        install(session, "build", "interop")
    session.run("python", "-m", f"bench.{what}", *rest)


@nox.session
def interop(session: nox.Session) -> None:
    """Compare with torch, transformers, peft and llama.cpp on the real model."""
    with step("install"):
        install(session, "build", "test", "interop")
    with step("tests"):
        # Peers warn about themselves; their warnings are no fault of ours.
        session.run(*PYTEST, "-s", "-W", "default", "lanes/suite/interop", *session.posargs)


@nox.session
def measure(session: nox.Session) -> None:
    """Measure the bounds of all rows and write lanes/tolerances.toml."""
    session.run("python", "-m", "lanes.measure", *session.posargs, env=prepare(session))
