"""What the peers are shown: passages, and rows of token ids drawn from a seed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IGNORED = -100
PASSAGES = (
    "The ferry leaves the northern pier at dawn, carrying eleven crates of green glass, two brass "
    "lanterns, a box of chalk and one nervous goat, and it returns after dark with nothing but "
    "salt.",
    "Every gear in the tower clock has forty-eight teeth except the last, which lost three of them "
    "in the winter storm; since then the bell strikes noon a little early and nobody minds.",
    "Our baker keeps seven jars on the long shelf: rye, spelt, poppy, fennel, caraway, burnt sugar "
    "and a dark powder that she will not name, and the dough knows which of them to ask for.",
    "To mend the kite, cut a strip of yellow silk, glue it along the broken spar, wait until the "
    "moon is above the mill, and then run down the western field without once looking back.",
)


@dataclass(frozen=True)
class TokenRows:
    """Ragged rows of ids with aligned labels.

    Attributes:
        ids: rows of ids.
        labels: the same lengths; the first of a row and about a third of the rest are ignored.
    """

    ids: list[list[int]]
    labels: list[list[int]]

    def padded(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(B, T) ids and labels, rows filled on the right with id 0 and ignored labels."""
        width = max(len(row) for row in self.ids)
        ids = [row + [0] * (width - len(row)) for row in self.ids]
        labels = [row + [IGNORED] * (width - len(row)) for row in self.labels]
        return np.array(ids, np.int64), np.array(labels, np.int64)


def draw_rows(seed: int, passage: list[int], *, vocabulary: int) -> TokenRows:
    """A row of text and a shorter row of ids drawn from the whole vocabulary."""
    draw = np.random.default_rng(seed)
    drawn = draw.integers(0, vocabulary, 2 * len(passage) // 3).tolist()
    ids = [passage, [int(i) for i in drawn]]
    labels = [
        [i if at and keep else IGNORED for at, (i, keep) in enumerate(zip(row, kept, strict=True))]
        for row, kept in ((row, draw.random(len(row)) > 1 / 3) for row in ids)
    ]
    return TokenRows(ids, labels)
