"""Where a run stands, and which rows come next: a pure function of seed, epoch and cursor."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retrograd.text import Dataset, Example

MOST_EPOCHS = 256  # passes whose orders are looked at one by one


@dataclass(frozen=True)
class LoopState:
    """Everything that decides which rows the next step sees.

    Attributes:
        step: optimizer steps done.
        epoch: passes over the data done.
        cursor: rows of the present pass already used.
    """

    step: int = 0
    epoch: int = 0
    cursor: int = 0


class Feed:
    """Hands out the rows of each step.

    A pass over the data ends with a step of fewer rows when the rows do not divide evenly; no step
    holds rows of two passes.

    Args:
        data: rows to train on.
        seed: of the order.
        rows_per_step: most rows of a step.
    """

    def __init__(self, data: Dataset, *, seed: int, rows_per_step: int) -> None:
        self.data = data
        self.seed = seed
        self.rows_per_step = rows_per_step
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass over the data."""
        return -(-len(self.data) // self.rows_per_step)

    def take(self, state: LoopState) -> tuple[list[Example], LoopState]:
        """The rows of the next step, and the state after that step."""
        order = self._order_of(state.epoch)
        end = min(state.cursor + self.rows_per_step, len(order))
        rows = [self.data.examples[int(i)] for i in order[state.cursor : end]]
        if end == len(order):
            return rows, LoopState(state.step + 1, state.epoch + 1, 0)
        return rows, LoopState(state.step + 1, state.epoch, end)

    def largest_micro_batch(self, total_steps: int, micro_batch: int) -> int:
        """Tokens of the largest micro-batch of a run from its start.

        Of a run of more than ``MOST_EPOCHS`` passes it is what no order can exceed: the longest
        rows together.

        Args:
            total_steps: steps of the run.
            micro_batch: rows of a micro-batch, a divisor of the rows of a step.
        """
        lengths = np.array([len(row.token_ids) for row in self.data.examples])
        micro_batch = min(micro_batch, len(lengths))
        most = int(np.sort(lengths)[-micro_batch:].sum())
        epochs = -(-total_steps // self.steps_per_epoch)
        if epochs > MOST_EPOCHS:
            return most
        largest = 0
        for epoch in range(epochs):
            n_steps = total_steps - epoch * self.steps_per_epoch
            ordered = lengths[self.data.order(self.seed, epoch)][: n_steps * self.rows_per_step]
            starts = np.arange(0, len(ordered), micro_batch)
            largest = max(largest, int(np.add.reduceat(ordered, starts).max()))
            if largest == most:
                break
        return largest

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, self.data.order(self.seed, epoch))
        return self._order[1]
