"""Rules of all tests: fixed examples, and no skip that could pass for a success."""

from collections.abc import Generator

import pytest
from hypothesis import settings

# Plans and lanes: `--plan`, the fixtures `plan` and `observe`; rows without evidence may run.
pytest_plugins = ("lanes.runner", "lanes.admitting")

# The same examples on every machine and in every run; a failure prints how to repeat it.
settings.register_profile("plan", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plan")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves what is marked ``exhaustive`` to the full plan."""
    if config.getoption("--plan") != "fast":
        return
    left_out = [item for item in items if item.get_closest_marker("exhaustive") is not None]
    items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has not verified anything: it fails."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing skips; refuse with a reason or fail"
    return report
