"""Rows side by side: the flat per-token inputs of one micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from retrograd.text.examples import Example

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True)
class MicroBatch:
    """Per-token arrays, (T,) int32 each, T a bucket size.

    Padding tokens see no key and have no target.

    Attributes:
        positions: place inside the token's own row.
        key_begin, key_end: the keys a token sees: its row up to itself.
        targets: next token where it is supervised, else -1.
        token_index: place in the step's data without padding, -1 for padding; the counter of
            dropout.
        n_tokens: tokens that are not padding.
    """

    ids: Int32s
    positions: Int32s
    key_begin: Int32s
    key_end: Int32s
    targets: Int32s
    token_index: Int32s
    n_tokens: int

    @property
    def n_supervised(self) -> int:
        return int(np.count_nonzero(self.targets >= 0))


def bucket(tokens: int) -> int:
    """Smallest program size that holds a number of tokens.

    Beyond 64 tokens at most an eighth of it is padding.
    """
    if tokens <= 64:
        return -(-max(tokens, 1) // 8) * 8
    grain = 1 << (tokens - 1).bit_length() - 4
    return -(-tokens // grain) * grain


def join_rows(rows: Sequence[Example], *, first_token: int = 0) -> MicroBatch:
    """Rows side by side in one flat run.

    Args:
        rows: token ids with aligned labels; the target of token i is label i + 1 of the same row.
        first_token: tokens of earlier micro-batches of the same step.
    """
    n = sum(len(row.token_ids) for row in rows)
    size = bucket(n)
    ids, positions = np.zeros(size, np.int32), np.zeros(size, np.int32)
    key_begin, key_end = np.zeros(size, np.int32), np.zeros(size, np.int32)
    targets, token_index = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    at = 0
    for row in rows:
        end = at + len(row.token_ids)
        ids[at:end] = row.token_ids
        positions[at:end] = np.arange(end - at)
        key_begin[at:end] = at
        key_end[at:end] = np.arange(at + 1, end + 1)
        following = np.array(row.labels[1:], np.int64)
        targets[at : end - 1] = np.where(following >= 0, following, -1)
        at = end
    token_index[:n] = np.arange(first_token, first_token + n)
    return MicroBatch(ids, positions, key_begin, key_end, targets, token_index, n)


def split_step(rows: Sequence[Example], micro_batch: int) -> list[MicroBatch]:
    """The micro-batches of one optimizer step, ``micro_batch`` rows each."""
    starts = [*range(0, len(rows), micro_batch), len(rows)]
    batches: list[MicroBatch] = []
    first_token = 0
    for begin, end in pairwise(starts):
        batches.append(join_rows(rows[begin:end], first_token=first_token))
        first_token += batches[-1].n_tokens
    return batches
