"""Rules that options must keep, checked where an options object is made.

A broken rule is a :class:`ConfigError` and also a ``ValueError``, so that pydantic collects those
of a whole run document and Python callers catch what they expect.
"""

import dataclasses
import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args, get_origin

from retrograd.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LEAST_SINGLE, MOST_SINGLE = 2.0**-126, (2.0 - 2.0**-23) * 2.0**127
"""The smallest and largest normal float32; what reaches a kernel as float32 lies between them."""


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


def typed(options: "DataclassInstance") -> Iterator[Check]:
    """A check for each field: an annotation binds no caller, and a float would pass for a count.

    Looked at are numbers, truth values, text, choices and tables; an int is taken for a float.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        got = f"{field.name} = {value!r}"
        if get_origin(field.type) is Literal:
            choices = get_args(field.type)
            holds = any(value == choice for choice in choices)
            names = ", ".join(map(repr, choices))
            yield Check(holds, f"{field.name} is one of {names}", got, "choose one of these")
        elif isinstance(field.type, type) and get_origin(field.type) is None:
            kind, name = _KINDS.get(field.type, (field.type, f"of type {field.type.__name__}"))
            holds = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            yield Check(holds, f"{field.name} is {name}", got, "correct the value")


# Annotation -> what a value may be, and how a message calls it.
_KINDS: dict[type, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    str: (str, "text"),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistyped one, or None when nothing is like it."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def at_least(key: str, value: float, least: int, remedy: str) -> Check:
    """``least`` or more."""
    # Compared and not converted: an integer may be too large for a float.
    holds = least <= value < math.inf
    return Check(holds, f"{key} is at least {least}", f"{key} = {value}", remedy)


def positive(key: str, value: float, remedy: str) -> Check:
    """Above 0, also as the float32 that a kernel is given."""
    rule = f"{key} is above 0"
    if 0 < value < math.inf:
        rule = f"{key} is a normal float32 number, {LEAST_SINGLE:.3g} to {MOST_SINGLE:.3g}"
    return Check(is_single(value), rule, f"{key} = {value}", remedy)


def is_single(value: float) -> bool:
    """Whether a value is a normal float32, in range."""
    return LEAST_SINGLE <= value <= MOST_SINGLE


def texts(key: str, values: object) -> Check:
    """A list or tuple of strings."""
    listed = isinstance(values, tuple | list)
    holds = listed and all(isinstance(one, str) for one in cast("tuple[object, ...]", values))
    return Check(holds, f"{key} is a list of texts", f"{key} = {values!r}", "write it as a list")


def plain(value: object) -> str:
    """Text for a value that JSON has no type for: a date as ISO 8601 writes it, a path as it is."""
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
