"""Rules of all tests: fixed examples, and no skip that could pass for a success."""

from collections.abc import Generator

import pytest
from hypothesis import settings

# Plans and lanes: `--plan`, the fixtures `plan` and `observe`; rows without evidence may run.
pytest_plugins = ("lanes.runner", "lanes.admitting")

# The same examples on every machine and in every run; a failure prints how to repeat it.
settings.register_profile("plan", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plan")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has not verified anything: it fails."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing skips; refuse with a reason or fail"
    return report
