"""Pinned rows of the CPU: equal bits to their restatement, whatever the variant and the threads."""

from functools import cache

import numpy as np
import pytest
from pinned_cases import CASES, cases, differing, run

from retrograd.backends import Device, open_device
from retrograd.errors import DeviceError
from retrograd.rows import declared_rows
from retrograd.runtime.launch import launch

OPS = {row.split(".")[0] for row in CASES}
FAULTS = [(row.id, fault) for row in declared_rows() if row.id in CASES for fault in row.faults]


@cache
def device(isa: str, threads: int, *, faults: bool = False) -> Device:
    return open_device(threads=threads, isa=isa, faults=faults)


def test_every_row_of_these_ops_has_cases_and_a_fault() -> None:
    declared = {row.id: row for row in declared_rows() if row.op in OPS}
    assert set(declared) == set(CASES)
    assert {row.contract for row in declared.values()} == {"pinned"}
    assert {row for row, _ in FAULTS} == set(CASES)


@pytest.mark.parametrize("row", CASES)
def test_bits_equal_the_restatement_on_every_variant_and_thread_count(row: str) -> None:
    elements = 0
    for number, case in enumerate(cases(row)):
        for isa in ("portable", "avx2"):
            for threads in (1, 2, 4):
                wrong = differing(run(device(isa, threads), row, case), case)
                assert wrong == [], f"case {number}, {isa}, {threads} threads"
        elements += sum(want.size for want in case.expected.values())
    assert elements > 10


@pytest.mark.parametrize(("row", "fault"), FAULTS)
@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_a_planted_fault_shows(row: str, fault: str, isa: str) -> None:
    faulty = device(isa, 2, faults=True)
    tried = cases(row)
    faulty.set_fault(f"{row}:{fault}")
    try:
        caught = [differing(run(faulty, row, case), case) != [] for case in tried]
    finally:
        faulty.set_fault(None)
    assert any(caught)
    # Sound again without it, and a fault of another row does nothing here.
    faulty.set_fault("another.row:" + fault)
    assert all(differing(run(faulty, row, case), case) == [] for case in tried[-2:])
    faulty.set_fault(None)


def test_the_product_library_holds_no_faults() -> None:
    plain = device("portable", 1)
    assert plain.probe()["has_faults"] is False
    with pytest.raises(DeviceError, match="holds no planted faults"):
        plain.set_fault("add.forward.f32.cpu:skip_last_element")


def test_dropout_backward_draws_the_mask_of_forward() -> None:
    t, c = 12, 99
    ones = np.ones((t, c), np.float32)
    y, dx = np.zeros_like(ones), np.zeros_like(ones)
    arguments = {"T": t, "C": c, "seed": 3, "tensor": 4, "threshold": 1 << 31, "scale": 2.0}
    index, step = np.arange(t, dtype=np.int32), np.array([5], np.uint32)
    on = device("avx2", 1)
    given = {"token_index": index, "step": step, **arguments}
    launch(on, "dropout.forward.f32.cpu", x=ones, y=y, **given)
    launch(on, "dropout.backward.f32.cpu", dy=ones, dx=dx, **given)
    assert y.tobytes() == dx.tobytes()
    assert set(np.unique(y)) == {0.0, 2.0}
    # Half of 1,188 elements, within four standard deviations.
    assert abs(int(np.count_nonzero(y)) - t * c // 2) < 4 * (t * c / 4) ** 0.5


def test_dropout_does_not_depend_on_how_tokens_are_batched() -> None:
    c, t = 51, 20
    x = np.random.default_rng(1).standard_normal((t, c)).astype(np.float32)
    step = np.array([2], np.uint32)
    arguments = {"C": c, "seed": 3, "tensor": 4, "threshold": 1 << 30, "scale": 4 / 3}
    row, on = "dropout.forward.f32.cpu", device("avx2", 2)
    order = np.random.default_rng(2).permutation(t).astype(np.int32)
    whole, parts = np.zeros_like(x), np.zeros_like(x)
    launch(on, row, x=x, token_index=order, step=step, y=whole, T=t, **arguments)
    for start in range(0, t, 7):
        rows = slice(start, start + 7)
        part, index = x[rows].copy(), order[rows].copy()
        out = np.zeros_like(part)
        launch(on, row, x=part, token_index=index, step=step, y=out, T=len(part), **arguments)
        parts[rows] = out
    assert whole.tobytes() == parts.tobytes()


X = np.ones((2, 12), np.float32)
POSITIONS = np.zeros(2, np.int32)
TABLE = np.ones((3, 2), np.float32)
ROPE = {"x": X, "positions": POSITIONS, "cos": TABLE, "sin": TABLE, "y": X.copy(), "T": 2, "C": 12}
STEP = {"g": X, "settings": np.ones(3, np.float32), "clip": np.ones(1, np.float32), "x": X.copy()}


@pytest.mark.parametrize(
    ("row", "rule", "arguments"),
    [
        ("rope.forward.f32.cpu", "head_size divides", {"head_size": 5, "n_rot": 4}),
        ("rope.forward.f32.cpu", "head_size divides", {"head_size": 0, "n_rot": 4}),
        ("rope.forward.f32.cpu", "n_rot is even", {"head_size": 6, "n_rot": 3}),
        ("rope.forward.f32.cpu", "n_rot is even", {"head_size": 6, "n_rot": 8}),
        ("rope.forward.f32.cpu", "positions lie", {"head_size": 6, "n_rot": 4, "P": 0}),
        ("sgd.step.f32.cpu", "nesterov needs", {**STEP, "n": 24, "nesterov": 1}),
        ("dequantize.forward.q4_1-f32.cpu", "whole number of blocks", {"n": 31}),
        ("embedding.forward.q4_k-f32.cpu", "whole number of blocks", {"T": 1, "V": 1, "C": 255}),
    ],
)
def test_arguments_that_break_a_rule_are_refused(
    row: str, rule: str, arguments: dict[str, int]
) -> None:
    given = {**ROPE, "P": 3, "neox": 0, **arguments} if row.startswith("rope") else arguments
    with pytest.raises(DeviceError, match=rule):
        launch(device("portable", 1), row, **given)
