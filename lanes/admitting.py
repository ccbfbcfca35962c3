"""The pytest plugin that lets tests and lanes run kernel rows which no receipt shows yet.

A test marked ``strict_admission`` meets admission as a user does.
"""

from collections.abc import Generator
from contextlib import nullcontext

import pytest

from retrograd.admission import collecting_evidence

MARKER = "strict_admission"


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    meaning = f"{MARKER}: the evidence table decides what runs, as it does for a user"
    config.addinivalue_line("markers", meaning)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around a test with all its fixtures, those of its module and session included."""
    strict = item.get_closest_marker(MARKER) is not None
    with nullcontext() if strict else collecting_evidence():
        return (yield)
