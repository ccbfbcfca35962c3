"""Declarations hold no claim, name only what exists, and list what the project promises to list."""

from collections.abc import Callable
from pathlib import Path

import pytest
from made_receipts import ROOT, copy_declarations

from lanes import digests as lane_digests
from matrix.canonical import row_digest
from matrix.declared import BACKENDS, Declarations
from matrix.errors import RefusedError
from matrix.files import read_current
from matrix.receipts import PLANS
from matrix.topics import read_declarations

Edit = Callable[[str, str, str], None]


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return read_declarations(ROOT)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The declarations of this checkout in a folder of their own."""
    return copy_declarations(tmp_path)


@pytest.fixture
def edit(copy: Path) -> Edit:
    def replace(name: str, old: str, new: str) -> None:
        path = copy / "matrix" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return replace


def test_the_copy_says_what_the_checkout_says(copy: Path, declared: Declarations) -> None:
    assert read_declarations(copy) == declared


TOPICS = {
    "training": {"lora-sft", "base-full", "base-partial", "base-hybrid", "preference", "ppo"}
    | {"grpo", "agentic-grpo", "distillation", "recurrent"},
    "optimizers": {"adamw", "sgd", "muon", "gefen"},
    "frozen-bases": {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}
    | {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k"},
    "execution": {"flash-attention", "chunked-cross-entropy", "device-sampling"}
    | {"generated-kernels", "captured-graphs", "multi-gpu", "ci-lane"},
    "families": {"llama", "qwen2", "qwen3"},
}


@pytest.mark.parametrize("topic", TOPICS)
def test_every_promised_row_is_listed_on_every_backend(topic: str, declared: Declarations) -> None:
    rows = {t.id: {row.id: row for row in t.rows} for t in declared.topics}[topic]
    assert rows.keys() >= TOPICS[topic]
    for row in rows.values():
        assert tuple(row.cells) == BACKENDS
        assert all(cell.id == f"{topic}.{row.id}.{cell.backend}" for cell in row.cells.values())


def test_base_dtype_rows_state_what_they_are(declared: Declarations) -> None:
    (storage,) = (t for t in declared.topics if t.kind == "base_dtype")
    facts = [row.facts for row in storage.rows]
    assert len({tuple(sorted(f.items())) for f in facts}) == len(facts)
    assert {f["storage"] for f in facts} == {"f32", "f16", "bf16"}
    assert {f["optimizer"] for f in facts} == {"adamw", "sgd", "muon", "gefen"}
    assert all(f.keys() == {"trains", "storage", "optimizer", "master", "compute"} for f in facts)
    # A master copy of what is F32 already would be the same numbers twice.
    assert not any(f["storage"] == "f32" and f["master"] == "f32" for f in facts)


def test_every_cell_needs_rows_that_a_lane_covers_on_its_backend(declared: Declarations) -> None:
    built = [cell for _, cell in declared.cells if cell.needs]
    assert built
    for cell in built:
        for lane, rows in cell.needs.items():
            assert set(rows) <= declared.coverage[lane]
            assert {declared.backend_of(row) for row in rows} <= {None, cell.backend}


def test_every_kernel_row_is_promised_somewhere(declared: Declarations) -> None:
    for row in declared.kernel_rows.values():
        assert any(e.backend == row.backend and "ops" in e.lanes for e in declared.environments)


def test_every_lane_with_a_plan_is_promised_somewhere(declared: Declarations) -> None:
    promised = {lane for e in declared.environments for lane in e.lanes}
    assert set(declared.plans) - promised == set()


def test_environments_and_claims_are_complete(declared: Declarations) -> None:
    for environment in declared.environments:
        assert environment.plan in PLANS
        assert "{lane}" in environment.command
        assert environment.hardware
    for backend in declared.release.claimed:
        assert declared.release.architectures[backend]


def test_this_checkout_has_a_digest_for_every_kernel_row(declared: Declarations) -> None:
    now = read_current(None, ROOT)
    assert now.digests.keys() >= declared.kernel_rows.keys()
    comparator = lane_digests.comparator_digest()
    for row in declared.kernel_rows:
        assert row_digest(row, now.parts[row], comparator) == now.digests[row]


CLAIMS = {
    'state = "verified"': "topic.row.cpu.state",
    "bound = 5": "topic.row.cpu.bound",
    "steps = 3": "topic.row.cpu.steps = 3",
    'notes = ["at 1.5 steps", "x"]': "topic.row.cpu.notes = 'at 1.5 steps'",
    'notes = ["within 20 % of it"]': "topic.row.cpu.notes = 'within 20 % of it'",
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_declaration_carries_no_state_and_no_number(copy: Path, edit: Edit, claim: str) -> None:
    edit("capabilities.toml", "[topic.row.cpu]\n", f"[topic.row.cpu]\n{claim}\n")
    if claim.startswith("notes"):  # a key may not occur twice
        text = (copy / "matrix/capabilities.toml").read_text(encoding="utf-8")
        head, _, tail = text.partition("notes = [\n")
        (copy / "matrix/capabilities.toml").write_text(head + tail.partition("]\n")[2], "utf-8")
    with pytest.raises(RefusedError) as caught:
        read_declarations(copy)
    assert CLAIMS[claim] in str(caught.value)
    assert "[matrix/capabilities.toml] a declaration carries no state" in str(caught.value)


def test_a_pattern_that_names_nothing_is_refused(copy: Path, edit: Edit) -> None:
    edit("capabilities.toml", '"swiglu.*.f32.cpu"', '"gelu.*.f32.cpu"')
    with pytest.raises(RefusedError, match=r"training\.lora-sft\].*got gelu\.\*\.f32\.cpu"):
        read_declarations(copy)


def test_an_unknown_key_is_refused(copy: Path, edit: Edit) -> None:
    edit("capabilities.toml", "[topic.row.cpu]\n", "[topic.row.cpu]\nneed.ops = []\n")
    with pytest.raises(RefusedError, match="a cell has known keys; got need"):
        read_declarations(copy)
    edit("capabilities.toml", "need.ops = []\n", "")
    edit("capabilities.toml", "[topic.row.cpu]\n", "[topic.row.rocm]\n")
    with pytest.raises(RefusedError, match="a row has known keys; got rocm"):
        read_declarations(copy)


def test_a_row_that_occurs_twice_is_refused(copy: Path, edit: Edit) -> None:
    edit("capabilities.toml", 'id = "muon"', 'id = "sgd"')
    with pytest.raises(RefusedError, match=r"a row occurs once; got optimizers\.sgd"):
        read_declarations(copy)


def test_an_environment_that_occurs_twice_is_refused(copy: Path, edit: Edit) -> None:
    edit("environments.toml", 'class = "cpu-portable"', 'class = "cpu-avx2"')
    with pytest.raises(RefusedError, match="an environment is listed once"):
        read_declarations(copy)


def test_a_declared_refusal_is_covered_by_the_lane_that_tries_every_cell(
    copy: Path, edit: Edit
) -> None:
    edit(
        "capabilities.toml", 'title = "Muon"', 'title = "Muon"\n[topic.row.cpu]\nrefuse = "not yet"'
    )
    declared = read_declarations(copy)
    assert declared.refusals == {"admission.optimizers.muon.cpu": "not yet"}
    assert "admission.optimizers.muon.cpu" in declared.coverage["admission"]
