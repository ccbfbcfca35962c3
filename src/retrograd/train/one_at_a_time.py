"""Objects that several Python threads may share: their methods run one after the other.

Native calls release the interpreter's lock, so without this two threads would fill each other's
inputs and run in one arena at once.
"""

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Self = TypeVar("Self", bound="OneAtATime")


class OneAtATime:
    """Objects whose methods marked :func:`alone` never run beside each other.

    Attributes:
        turn: the lock they take; a thread that has it may call further methods.
    """

    def __init__(self) -> None:
        self.turn = RLock()


def alone(method: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """A method that no other thread's call of such a method runs beside."""

    @wraps(method)
    def call(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **kwargs)

    return call
