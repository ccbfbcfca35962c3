"""The pytest plugin of the lanes: cases from plans, the fixture ``observe``, and a record.

Loaded by ``conftest.py``, so that plain pytest runs the lanes as well; ``python -m lanes run``
adds ``--lane-selection`` (which cases) and ``--lane-record`` (where to write). Observations
travel in ``user_properties``, so that workers of xdist change nothing. The plugin judges nothing:
the record says how each test ended, and :mod:`lanes.verdict` decides.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from lanes.catalogue import PLANS
from lanes.observation import Observe
from lanes.registry import SUITE, part_of

# Lanes run rows that no receipt shows yet.
pytest_plugins = ("lanes.admitting",)
Selection = Mapping[str, list[list[str]] | None]
_SELECTION = pytest.StashKey[Selection | None]()
_PROPERTY = "lane"
_LOST = "lanes_deselected"
# Raised where the surroundings are at fault and not the row: nothing is verified or falsified.
_SURROUNDINGS = frozenset(
    {
        "DeviceError",
        "FileNotFoundError",
        "ImportError",
        "KeyboardInterrupt",
        "LaneError",
        "MemoryError",
        "ModuleNotFoundError",
        "NoBoundError",
        "NoCasesError",
        "StampError",
    }
)


@dataclass(frozen=True)
class Ended:
    """How a test ended.

    Attributes:
        test: node id.
        lane: the lane whose file it stands in; empty for any other file.
        row, case: what it observes; empty where it only supports the lane.
        kind: ``passed``, ``failed`` (the row is at fault), ``skipped`` or ``broken`` (setup,
            surroundings, a crash).
        reason: first line of what was raised.
        observed: what it said of its case, as plain data.
    """

    test: str
    lane: str
    row: str
    case: str
    kind: str
    reason: str
    duration_s: float
    observed: list[dict[str, object]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--plan`` and what the command line of the lanes passes on."""
    group = parser.getgroup("lanes")
    group.addoption(
        "--plan", choices=sorted(PLANS), default="fast", help="how much of each row's cases to run"
    )
    group.addoption("--lane-selection", type=Path, help="file that lists the cases to run")
    group.addoption("--lane-record", type=Path, help="file to write how every test ended to")


def pytest_configure(config: pytest.Config) -> None:
    """Reads the selection; the process that starts the workers keeps the record."""
    path = cast(Path | None, config.getoption("--lane-selection"))
    config.stash[_SELECTION] = None if path is None else json.loads(path.read_bytes())
    record = cast(Path | None, config.getoption("--lane-record"))
    if record is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(record), "lane-recorder")


@pytest.fixture(scope="session")
def plan(request: pytest.FixtureRequest) -> str:
    """Name of the plan that was asked for."""
    return str(request.config.getoption("--plan"))


@pytest.fixture
def observe(request: pytest.FixtureRequest) -> Observe:
    """Tells the record what was observed of the test's case."""
    found = Observe()
    request.node.stash[_OBSERVE] = found
    return found


_OBSERVE = pytest.StashKey[Observe]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test of a lane one call for each of its cases in the plan."""
    part = part_of(metafunc.function)
    if part is None:
        return
    chosen = _chosen(metafunc.config, part.lane)
    cases = sorted(part.rows(str(metafunc.config.getoption("--plan"))))
    keys = [list(case.key) for case in cases if chosen is None or list(case.key) in chosen]
    metafunc.parametrize(("row", "case"), keys, ids=["-".join(key) for key in keys])


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Keeps the selected cases; whatever another filter takes away is put on record."""
    chosen = {item: _chosen(config, _lane_of(item.path)) for item in items}
    items[:] = [i for i in items if chosen[i] is None or list(_case_of(i)) in (chosen[i] or [])]
    before = len(items)
    yield
    lost = before - len(items)
    if lost and hasattr(config, "workerinput"):
        cast(dict[str, int], getattr(config, "workeroutput"))[_LOST] = lost  # noqa: B009 — of xdist
    elif lost and (recorder := config.pluginmanager.get_plugin("lane-recorder")):
        cast(Recorder, recorder).lose(lost)


def _chosen(config: pytest.Config, lane: str) -> list[list[str]] | None:
    selection = config.stash[_SELECTION]
    return None if selection is None else selection.get(lane)


def _lane_of(path: Path) -> str:
    return path.stem if path.parent == SUITE else ""


def _case_of(item: pytest.Item) -> tuple[str, str]:
    function: object = getattr(item, "function", None)
    if part_of(function) is None:
        return "", ""
    # Without cases pytest leaves a marker in place of the parameters.
    parameters = cast(dict[str, object], getattr(item, "callspec").params)  # noqa: B009 — untyped
    return str(parameters["row"]), str(parameters["case"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a lane's test what it observed, and how it ended."""
    report = yield
    lane = _lane_of(item.path)
    if lane:
        row, case = _case_of(item)
        observe = item.stash.get(_OBSERVE, None)
        observed = observe.observed if observe is not None and report.when == "call" else []
        ended = Ended(
            test=item.nodeid,
            lane=lane,
            row=row,
            case=case,
            kind=_kind(report, call),
            reason=_reason(call),
            duration_s=report.duration,
            observed=[entry.record() for entry in observed],
        )
        report.user_properties.append((_PROPERTY, json.dumps(asdict(ended))))
    return report


def _kind(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    if hasattr(report, "wasxfail"):
        return "skipped"
    if call.excinfo is None:
        # Failed without having raised: it passed against a mark that expects a failure.
        return "passed" if report.outcome == "passed" else "skipped"
    # By name: a skip is no error class that tests may use.
    if call.excinfo.typename in {"Skipped", "SkipTest"}:
        return "skipped"
    names = {base.__name__ for base in call.excinfo.type.__mro__}
    return "broken" if call.when != "call" or names & _SURROUNDINGS else "failed"


def _reason(call: pytest.CallInfo[None]) -> str:
    if call.excinfo is None:
        return ""
    lines = str(call.excinfo.value).strip().splitlines()
    text = lines[0] if lines else ""
    return f"{call.excinfo.typename}: {text}"[:400] if call.excinfo.typename != "Failed" else text


class Recorder:
    """Writes how every test ended, once all have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended: list[Any] = []
        self.broken: list[str] = []

    def lose(self, count: int) -> None:
        """Tests that a filter of pytest took away."""
        self.broken.append(f"{count} tests were deselected by a filter that is not the plan's")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps calls, and setups and teardowns that did not pass."""
        found = [text for name, text in report.user_properties if name == _PROPERTY]
        if not found:
            # A report without the plugin's mark is that of a test whose worker is gone.
            if report.outcome != "passed":
                self.broken.append(f"{report.nodeid}: {str(report.longrepr).splitlines()[-1]}")
            return
        ended = json.loads(str(found[-1]))
        if report.when == "call" or ended["kind"] != "passed":
            self.ended.append(ended)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected hides its tests."""
        if report.outcome != "passed":
            lines = str(report.longrepr).strip().splitlines() or ["no reason"]
            self.broken.append(f"{report.nodeid} was not collected: {lines[-1]}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ANN401 — of xdist
        """A worker that ends with an error takes its tests with it."""
        lost = getattr(node, "workeroutput", {}).get(_LOST, 0)
        if lost:
            self.lose(lost)
        if error is not None:
            self.broken.append(f"worker {node.gateway.id} crashed: {error}")

    def pytest_sessionfinish(self) -> None:
        """Writes the record; a process that dies before this leaves none."""
        text = json.dumps({"ended": self.ended, "broken": self.broken})
        self.path.write_text(text, encoding="utf-8")
