"""A pytest plugin that breaks runs of lanes, one way at a time: ``LANES_SABOTAGE=<way>``."""

import os
import signal
import unittest

import pytest

from lanes.observation import Observe

WAY = os.environ.get("LANES_SABOTAGE", "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if WAY == "expected failure":
        for item in items:
            item.add_marker("xfail")
    if WAY == "half":
        items[:] = items[: len(items) // 2]


def pytest_runtest_setup() -> None:
    match WAY:
        case "skip":
            raise unittest.SkipTest("not today")
        case "no device":
            raise ModuleNotFoundError("No module named 'driver'")
        case "broken fixture":
            raise ValueError("a fixture is broken")
        case "interrupt":
            raise KeyboardInterrupt
        case _:
            pass


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    match WAY:
        case "skip inside":
            raise unittest.SkipTest("no GPU here")
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "expected failure" | "wrong":
            raise AssertionError("it was wrong")
        case "package":
            raise ModuleNotFoundError("No module named 'driver'")
        case "nothing" | "quiet" | "twice" | "other refusal":
            return _observing(pyfuncitem)
        case _:
            pass
    return None


def _observing(item: pytest.Function) -> bool:
    """In place of the test: it passes, and says of its case what it should not."""
    observe = item.funcargs.get("observe")
    if isinstance(observe, Observe):
        match WAY:
            case "nothing":
                observe.equal(0)
            case "twice":
                observe.equal(1)
                observe.equal(1)
            case "other refusal":
                observe.refused("for another reason")
            case _:
                pass
    return True
