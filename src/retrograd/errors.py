"""Errors a user can act on.

Every message has the same four parts: ``[where] rule; got value; do this``.
``exit_code`` is 2 for a mistake in what the user asked for and 1 for a fault of ours.
"""


class RetrogradError(Exception):
    """A refusal: which rule was broken, by what, and what to do about it.

    Args:
        where: the part of the product that refuses, such as ``gguf`` or ``matmul``.
        rule: the rule, as a statement of what must hold.
        got: the offending value as it was received.
        remedy: what the reader can do now.
    """

    exit_code = 2

    def __init__(self, where: str, rule: str, got: object, remedy: str) -> None:
        self.where = where
        self.rule = rule
        self.got = got
        self.remedy = remedy
        super().__init__(f"[{where}] {rule}; got {got}; {remedy}")

    def __reduce__(self) -> tuple[type, tuple[str, str, object, str]]:
        return type(self), (self.where, self.rule, self.got, self.remedy)


class GgufError(RetrogradError):
    """A file that is not a GGUF file we can trust."""


class ConfigError(RetrogradError):
    """A run document or an option that does not hold together."""


class DataError(RetrogradError):
    """Training or evaluation data that cannot be used."""


class TrainingError(RetrogradError):
    """A run that cannot go on, such as one whose gradients are not finite."""


class AdmissionError(RetrogradError):
    """A combination for which no admitted kernel row exists."""


class DeviceError(RetrogradError):
    """A device, driver or backend library that cannot do what was asked."""


class InternalError(RetrogradError):
    """A broken invariant: a fault of retrograd, not of its user."""

    exit_code = 1
