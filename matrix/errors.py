"""What the table refuses to be built from, each complaint with its file and its rule."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Complaint:
    """One broken rule.

    Attributes:
        where: the file, relative to the folder it was read from.
        rule: the rule, as a statement of what must hold.
        got: what was found instead.
        remedy: what the reader can do now.
    """

    where: str
    rule: str
    got: str
    remedy: str

    def __str__(self) -> str:
        return f"[{self.where}] {self.rule}; got {self.got}; {self.remedy}"


class RefusedError(Exception):
    """Inputs that no table may be built from; every complaint is named, one a line.

    Args:
        complaints: the broken rules, at least one.
    """

    def __init__(self, complaints: Iterable[Complaint]) -> None:
        self.complaints = tuple(sorted(complaints))
        super().__init__("\n".join(str(complaint) for complaint in self.complaints))
