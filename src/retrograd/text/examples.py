"""What training reads: token ids with labels."""

from dataclasses import dataclass

IGNORED = -100
"""Label of a token that takes no part in the loss."""


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        token_ids: T ids.
        labels: T labels, aligned: ``labels[i]`` is ``token_ids[i]`` where token i is supervised and
            :data:`IGNORED` elsewhere. The shift by one happens in the trainer. The first token has
            nothing before it to be predicted from, so its label is always ignored.
        origin: where the row came from, as ``file:line``; empty when it came from a call.
    """

    token_ids: list[int]
    labels: list[int]
    origin: str = ""

    @property
    def n_supervised(self) -> int:
        """How many tokens take part in the loss."""
        return sum(label != IGNORED for label in self.labels)


def supervise(token_ids: list[int], chosen: set[int], origin: str) -> Example:
    """An example whose loss is taken at the chosen token positions."""
    labels = [t if i and i in chosen else IGNORED for i, t in enumerate(token_ids)]
    return Example(token_ids, labels, origin)
