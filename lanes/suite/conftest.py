"""Options and rules of the lanes: a plan, and no skip that could pass for a success."""

from collections.abc import Generator

import pytest

from lanes.catalogue import PLANS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--plan``."""
    parser.addoption("--plan", choices=sorted(PLANS), default="fast", help="how much of each row's cases to run")


@pytest.fixture(scope="session")
def plan(request: pytest.FixtureRequest) -> str:
    """Name of the plan that was asked for."""
    return str(request.config.getoption("--plan"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has not verified anything: it fails."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: a lane does not skip; it refuses with a reason or fails"
    return report
