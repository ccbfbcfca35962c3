"""Rules that options must keep, checked where an options object is made.

A broken rule is a :class:`ConfigError` and also a ``ValueError``, so that pydantic collects those
of a whole run document and Python callers catch what they expect.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, get_origin

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
