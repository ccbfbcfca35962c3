"""Empty and broken invocations of every lane: none of them is a success, each says what it is.

In plan `fast` one lane meets all that start no process and a few that do; in plan `full` every lane
meets all.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lanes.registry
import lanes.run
import retrograd.backends
from lanes import plan, stamp, tolerances
from lanes.__main__ import main
from lanes.registry import Need, get_lane, lane_names

Prepare = Callable[[pytest.MonkeyPatch, Path, str], None]
SAMPLE = "rope_tables"
# The row that each lane is cut down to where tests are started.
CHEAP = {
    "abi": "abi.settings",
    "admission": "admission.states",
    "exactness": "exactness.base",
    "formats": "formats.f32",
    "model": "model.attribution",
    "ops": "fill.forward.f32.cpu",
    "rope_tables": "rope_tables.none",
}


@dataclass(frozen=True)
class Broken:
    """An invocation.

    Attributes:
        arguments: after ``run LANE``.
        says: what is printed.
        code: exit code.
        prepare: what is broken before.
        needs: only lanes with this need can meet it.
    """

    arguments: tuple[str, ...]
    says: str
    code: int = 2
    prepare: Prepare | None = None
    needs: Need | None = None


def _plan(change: Callable[[str], str]) -> Prepare:
    def prepare(monkeypatch: pytest.MonkeyPatch, folder: Path, lane: str) -> None:
        text = (plan.FOLDER / f"{lane}.toml").read_text("utf-8")
        (folder / f"{lane}.toml").write_text(change(text), "utf-8")
        monkeypatch.setattr(plan, "FOLDER", folder)

    return prepare


def _foreign_plan(text: str) -> str:
    return re.sub(r'sha256 = "\w+"', f'sha256 = "{"0" * 64}"', text)


def _no_plan(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setattr(plan, "FOLDER", folder)


def _no_package(monkeypatch: pytest.MonkeyPatch, _: Path, __: str) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)


def _no_library(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setattr(retrograd.backends, "__file__", str(folder / "backends.py"))


def _no_variant(monkeypatch: pytest.MonkeyPatch, _: Path, __: str) -> None:
    monkeypatch.setenv("RETRO_CPU_ISA", "abacus")


def _other_library(monkeypatch: pytest.MonkeyPatch, _: Path, __: str) -> None:
    monkeypatch.setattr(retrograd.backends.Device, "digests", {"fill.forward.f32.cpu": "0" * 64})


def _no_faults(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setenv("RETRO_FAULTS_LIBRARY", str(folder / "none.so"))


def _no_bounds(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setattr(tolerances.read, "__defaults__", (folder / "none.toml",))


def _no_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(lanes.run, "known_digests", lambda *_: {})


def _no_sources(monkeypatch: pytest.MonkeyPatch, folder: Path, _: str) -> None:
    monkeypatch.setattr(stamp.product_stamp, "__defaults__", (folder,))


BEFORE_ANY_TEST: dict[str, Broken] = {
    "unknown plan": Broken(("--plan", "quick"), "the plan is one of those there are; got quick"),
    "unknown filter": Broken(("--rows", "no.such.row"), "got no.such.row"),
    "empty filter": Broken(("--rows", ""), "the filter is the pattern of a row"),
    "shard zero": Broken(("--shard", "0/2"), "a shard is i/n with i from 1 to n; got 0/2"),
    "shard beyond": Broken(("--shard", "3/2"), "got 3/2"),
    "shard that is none": Broken(("--shard", "half"), "got half"),
    "empty shard": Broken(("--shard", "9999/9999"), "a shard holds cases; got shard 9999/9999"),
    "unknown device": Broken(("--device", "abacus"), "got abacus"),
    "device that was not built": Broken(("--device", "cuda"), "got cuda"),
    "unknown option": Broken(("--quick",), "unrecognized arguments: --quick"),
    "tampered plan": Broken(
        (),
        "those of its committed plan",
        prepare=_plan(lambda t: t.replace("cases = ", "cases = 9")),
    ),
    "foreign plan": Broken((), "those of its committed plan", prepare=_plan(_foreign_plan)),
    "plan that is none": Broken((), "has a committed plan", prepare=_plan(lambda _: "rows = ")),
    "missing plan": Broken((), "a lane has a committed plan", prepare=_no_plan),
    "missing package": Broken((), "install mpmath", prepare=_no_package),
    "missing library": Broken((), "the library of backend 'cpu' is there", prepare=_no_library),
    "unknown variant": Broken(
        (), "variant .RETRO_CPU_ISA. is one of: .*abacus", prepare=_no_variant
    ),
    "library of other sources": Broken((), "was built from these sources", prepare=_other_library),
    "sources of no commit": Broken((), "says which sources these are", prepare=_no_sources),
    "missing test library": Broken((), "none.so", prepare=_no_faults, needs=Need.FAULTS),
    "missing bounds": Broken(
        (), "bounds of the rows are recorded", prepare=_no_bounds, needs=Need.BOUNDS
    ),
    "missing compiler": Broken((), "no g", prepare=_no_compiler, needs=Need.COMPILER),
}


def _sabotage(way: str) -> Prepare:
    def prepare(monkeypatch: pytest.MonkeyPatch, _: Path, __: str) -> None:
        monkeypatch.setenv("LANES_SABOTAGE", way)

    return prepare


def _broken(way: str, says: str, *arguments: str, code: int = 2) -> Broken:
    words = (*arguments, "--", "-p", "tests.sabotage")
    return Broken(words, says, code, _sabotage(way))


STARTED: dict[str, Broken] = {
    "a skip": _broken("skip", "was skipped, and a skip verifies nothing: .*not today"),
    "a crash": _broken("crash", "pytest left no record and ended with status -9"),
    "everything deselected": Broken(
        ("--", "-k", "nothing_has_this_name"), "deselected by a filter that is not the plan's"
    ),
    "a skip inside": _broken("skip inside", "was skipped, .*no GPU here"),
    "a worker's crash": _broken("crash", "crashed", "-n", "1"),
    "an exit that looks like success": _broken(
        "exit", "pytest left no record and ended with status 0"
    ),
    "an expected failure": _broken("expected failure", "was skipped"),
    "a filter of its own": _broken("half", "deselected by a filter|planned and not run"),
    "a missing package inside": _broken("package", "broke off: .*No module named 'driver'"),
    "a broken fixture": _broken("broken fixture", "broke off: .*a fixture is broken"),
    "an interrupt": _broken("interrupt", "planned and not run|broke off|left no record"),
    "nothing compared": _broken("nothing", "nothing was compared|inputs were planned"),
    "nothing observed": _broken("quiet", "passed without observing anything"),
    "observed twice": _broken("twice", "it was observed 2 times"),
    "a file that is not there": Broken(
        ("--", "tests/no_such_file.py"), "left no record|planned and not"
    ),
    "a wrong result": _broken("wrong", "failed: AssertionError: it was wrong", code=1),
    "a refusal that was not predicted": _broken(
        "other refusal", "not predicted: for another", code=1
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--plan") == "full"
    chosen = lane_names() if every else (SAMPLE,)
    if "before" in metafunc.fixturenames:
        pairs = [(lane, name) for lane in chosen for name in _met(lane, BEFORE_ANY_TEST)]
        metafunc.parametrize(("lane", "before"), pairs)
    if "started" in metafunc.fixturenames:
        names = list(STARTED) if every else list(STARTED)[:3]
        metafunc.parametrize(("lane", "started"), [(lane, n) for lane in chosen for n in names])


def _met(lane: str, battery: dict[str, Broken]) -> Iterator[str]:
    needs = get_lane(lane).needs
    return (name for name, entry in battery.items() if entry.needs is None or entry.needs in needs)


@pytest.fixture
def attempt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[[str, Broken, tuple[str, ...]], None]:
    """Runs a broken invocation and holds it to its code, its words, and to leaving no receipt."""

    def run(lane: str, broken: Broken, more: tuple[str, ...]) -> None:
        if broken.prepare:
            broken.prepare(monkeypatch, tmp_path, lane)
        out = tmp_path / "out"
        try:
            code = main(["run", lane, "--out", str(out), *more, *broken.arguments])
        except SystemExit as error:
            code = error.code
        said = capfd.readouterr()
        assert re.search(broken.says, said.err + said.out), said
        assert code == broken.code
        assert broken.code == 1 or not list(out.rglob("*.json"))

    return run


def test_each_lane_meets_more_than_twelve() -> None:
    for lane in lane_names():
        assert len(list(_met(lane, {**BEFORE_ANY_TEST, **STARTED}))) >= 30
    assert set(CHEAP) == set(lane_names())


def test_before_any_test(lane: str, before: str, attempt: Callable[..., None]) -> None:
    attempt(lane, BEFORE_ANY_TEST[before], ())


def test_once_started(lane: str, started: str, attempt: Callable[..., None]) -> None:
    attempt(lane, STARTED[started], ("--rows", CHEAP[lane]))


@pytest.mark.parametrize("name", ["", "no_such_lane", "../ops", "interop"])
def test_unknown_lane(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", name]) == 2
    assert f"the lane is one of those there are; got {name};" in capsys.readouterr().err


def test_a_lane_without_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty_lane.py").write_text("", "utf-8")
    monkeypatch.setattr(lanes.registry, "SUITE", tmp_path)
    monkeypatch.setattr(lanes.registry, "import_module", lambda _: None)
    assert main(["run", "empty_lane"]) == 2


def test_a_sample_of_everything_is_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fast", "--plan", "full"]) == 2
    assert "name a lane" in capsys.readouterr().err


def test_nox_never_skips() -> None:
    """Nox counts a skipped session as a success, so that no session may skip itself."""
    text = (Path(__file__).parents[1] / "noxfile.py").read_text("utf-8")
    assert re.findall(r"\.skip\(|session\.warn\(", text) == []
    assert "error_on_missing_interpreters = True" in text


def test_a_session_that_left_no_receipt_is_not_verified(tmp_path: Path) -> None:
    assert main(["verify", str(tmp_path / "cpu-avx2-gcc12" / "ops.json")]) == 2
