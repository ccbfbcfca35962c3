"""What the README, the guides and ``--help`` claim is what the table says."""

import json
from pathlib import Path

import pytest
from prose_claims import Claim, claim, faults, paragraphs, terms

from matrix.topics import read_declarations

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "retrograd" / "table.json"
CELLS = {"families.llama.cpu": "llama", "families.gemma.cpu": "gemma", "optimizers.sgd.cpu": "SGD"}
STATES = {
    "families.llama.cpu": "verified",
    "families.gemma.cpu": "not measured",
    "optimizers.sgd.cpu": "failed",
}


def _declared() -> dict[str, str]:
    return {
        cell.id: row.title
        for topic in read_declarations(ROOT).topics
        for row in topic.rows
        for cell in row.cells.values()
    }


def _states() -> dict[str, str]:
    table = json.loads(TABLE.read_bytes()) if TABLE.exists() else {}
    sections = (table.get("capabilities", {}), table.get("base_dtype", {}))
    return {cell: entry["state"] for section in sections for cell, entry in section.items()}


def test_every_claim_names_its_cell_and_the_cell_bears_it_out() -> None:
    cells, states = _declared(), _states()
    assert [fault for found in paragraphs(ROOT) for fault in faults(found, cells, states)] == []


def test_there_are_claims_to_look_at() -> None:
    found = list(paragraphs(ROOT))
    assert len(found) > 40
    assert any(one.cells and one.where.startswith("README.md") for one in found)
    assert any("cli/" in one.where for one in found)
    words = terms(_declared())
    assert words["qwen2"] == "families.qwen2"
    assert words["Q4_1"] == "frozen-bases.q4_1"
    assert words["AdamW"] == "optimizers.adamw"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("It trains llama. <!-- cell: families.llama.cpu -->", ""),
        ("It trains llama. [cell:families.llama.cpu]", ""),
        ("Adapters load in llama.cpp, and `llama` is a word.", ""),
        ("gemma comes later. <!-- cell: families.gemma.cpu = not measured -->", ""),
        (
            "llama and gemma <!-- cell: families.*.cpu -->",
            "claims families.gemma.cpu, which is not",
        ),
        ("It trains llama.", "names llama without <!-- cell: families.llama.BACKEND -->"),
        ("SGD works. <!-- cell: optimizers.sgd.cpu -->", "optimizers.sgd.cpu, which is failed"),
        (
            "SGD <!-- cell: optimizers.sgd.cpu = stale -->",
            "optimizers.sgd.cpu is failed, not stale",
        ),
        ("A claim <!-- cell: families.bert.cpu -->", "no cell is called families.bert.cpu"),
    ],
)
def test_a_claim_is_held_against_its_cell(text: str, fault: str) -> None:
    found = list(faults(claim("page:1", text), CELLS, STATES))
    assert [fault in one for one in found] == ([True] if fault else [])


def test_marks_are_no_part_of_the_text() -> None:
    found = claim("page:1", "Both. <!-- cell: a.b.cpu c.*.cpu = not measured --> [cell:d.e.cpu]")
    cells = (("a.b.cpu", "not measured"), ("c.*.cpu", "not measured"), ("d.e.cpu", ""))
    assert found == Claim("page:1", "Both.  ", cells)
