"""The six states, and how several findings become one."""

from collections.abc import Iterable

VERIFIED = "verified"
TRANSFERRED = "transferred"
STALE = "stale"
FAILED = "failed"
REFUSED = "refused"
NOT_MEASURED = "not measured"

# Worst first: of several findings the first one here is the state.
SEVERITY = (FAILED, STALE, NOT_MEASURED, REFUSED, TRANSFERRED, VERIFIED)
ADMITTED = frozenset({VERIFIED, TRANSFERRED})


def worst(states: Iterable[str]) -> str:
    """The state of something that needs all of these.

    Raises:
        ValueError: there is none.
    """
    return min(states, key=SEVERITY.index)
