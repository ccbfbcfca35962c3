"""Which rows come next is a pure function of seed, epoch and cursor."""

from pathlib import Path

from retrograd.text import Dataset, Example
from retrograd.train.plot import draw_losses
from retrograd.train.progress import duration, size
from retrograd.train.state import Feed, LoopState


def data(n_rows: int) -> Dataset:
    examples = tuple(Example([i] * (i + 1), [-100] * i + [i], f"x:{i}") for i in range(n_rows))
    return Dataset(Path("x.jsonl"), "chat", examples)


def first_ids(rows: list[Example]) -> list[int]:
    return [row.token_ids[0] for row in rows]


def test_each_pass_sees_every_row_once_and_ends_with_a_shorter_step() -> None:
    feed = Feed(data(10), seed=3, rows_per_step=4)
    assert feed.steps_per_epoch == 3
    state = LoopState()
    for epoch in range(2):
        seen: list[int] = []
        for expected in (4, 4, 2):
            assert state.epoch == epoch
            rows, state = feed.take(state)
            assert len(rows) == expected
            seen += first_ids(rows)
        assert sorted(seen) == list(range(10))
        assert seen == [int(i) for i in data(10).order(3, epoch)]
    assert state == LoopState(step=6, epoch=2, cursor=0)


def test_a_step_depends_on_its_state_alone() -> None:
    whole = Feed(data(23), seed=9, rows_per_step=5)
    state, states = LoopState(), [LoopState()]
    steps: list[list[int]] = []
    for _ in range(12):
        rows, state = whole.take(state)
        steps.append(first_ids(rows))
        states.append(state)
    for at in (11, 4, 7, 0):
        rows, after = Feed(data(23), seed=9, rows_per_step=5).take(states[at])
        assert first_ids(rows) == steps[at]
        assert after == states[at + 1]


def test_orders_differ_between_passes_and_seeds() -> None:
    def first_pass(seed: int, epoch: int) -> list[int]:
        feed = Feed(data(50), seed=seed, rows_per_step=50)
        return first_ids(feed.take(LoopState(epoch=epoch))[0])

    assert first_pass(1, 0) == first_pass(1, 0)
    assert first_pass(1, 0) != first_pass(1, 1)
    assert first_pass(1, 0) != first_pass(2, 0)


def test_largest_micro_batch_is_the_largest_that_the_run_will_see() -> None:
    feed = Feed(data(6), seed=0, rows_per_step=6)
    assert feed.largest_micro_batch(1, 6) == 1 + 2 + 3 + 4 + 5 + 6
    assert feed.largest_micro_batch(1, 1) == 6
    order = [int(i) for i in data(6).order(0, 0)]
    pairs = [order[i] + order[i + 1] + 2 for i in (0, 2, 4)]
    assert feed.largest_micro_batch(1, 2) == max(pairs)


def test_figures_as_people_read_them() -> None:
    assert [size(n) for n in (999, 1000, 98_362_432, 2_300_000_000)] == [
        "999 B",
        "1.0 kB",
        "98.4 MB",
        "2.30 GB",
    ]
    assert [duration(s) for s in (0, 59.6, 61, 3661)] == ["0:00", "1:00", "1:01", "1:01:01"]


def test_equal_curves_give_equal_bytes(tmp_path: Path) -> None:
    curve = [(1, 3.0), (2, 2.0), (3, 1.5)]
    first = draw_losses(tmp_path / "a.svg", title="run", train=curve, held_out=[(3, 1.75)])
    second = draw_losses(tmp_path / "b.svg", title="run", train=curve, held_out=[(3, 1.75)])
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert "held out" in text
    assert "training step" in text
    empty = draw_losses(tmp_path / "c.svg", title="nothing", train=[], held_out=[])
    assert "held out" not in empty.read_text()
