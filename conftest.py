"""Rules of all tests: a plan, fixed examples, and no skip that could pass for a success."""

from collections.abc import Generator

import pytest
from hypothesis import settings

from lanes.catalogue import PLANS

# The same examples on every machine and in every run; a failure prints how to repeat it.
settings.register_profile("plan", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plan")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--plan``."""
    parser.addoption(
        "--plan", choices=sorted(PLANS), default="fast", help="how much of each row's cases to run"
    )


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
        report.longrepr = f"{report.nodeid}: nothing skips; refuse with a reason or fail"
    return report
