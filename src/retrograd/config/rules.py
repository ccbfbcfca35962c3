"""Rules that options must keep, checked where an options object is made.

A broken rule is a :class:`ConfigError` and also a ``ValueError``, so that pydantic collects those
of a whole run document and Python callers catch what they expect.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from retrograd.errors import ConfigError


class Check(NamedTuple):
    """One rule and whether it holds.

    Attributes:
        holds: False when the rule is broken.
        rule: what must hold, as a statement.
        got: the offending key and value.
        remedy: what to do.
    """

    holds: bool
    rule: str
    got: str
    remedy: str


class OptionsError(ConfigError, ValueError):
    """One or several broken rules, all told together.

    Args:
        errors: at least one.
    """

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.where, first.rule, first.got, first.remedy)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)

    def __reduce__(self) -> tuple[Callable[..., "OptionsError"], tuple[object, ...]]:  # type: ignore[override]
        return type(self), (self.errors,)


def enforce(table: str, checks: Iterable[Check]) -> None:
    """Raise every broken rule of a table at once.

    Args:
        table: where the values stand in a run document, such as ``training.optimizer``.
        checks: the rules of that table.

    Raises:
        OptionsError: at least one rule does not hold.
    """
    broken = [
        ConfigError("config", f"{table}: {check.rule}", check.got, check.remedy)
        for check in checks
        if not check.holds
    ]
    if broken:
        raise OptionsError(broken)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistyped one, or None when nothing is like it."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None
