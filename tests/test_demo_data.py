"""The dictation data: disjoint values, one right answer, and bytes that the generator decides."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "dictation"
ROWS = {"train.jsonl": 560, "heldout.jsonl": 100}
WORDS = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    word: 10 * (i + 2)
    for i, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    )
}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
UNITS = {
    "kilograms": "kg",
    "grams": "g",
    "tonnes": "t",
    "metres": "m",
    "kilometres": "km",
    "millimetres": "mm",
    "litres": "L",
    "millilitres": "mL",
    "volts": "V",
    "watts": "W",
    "hours": "h",
    "minutes": "min",
}
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def generate(folder: Path) -> None:
    subprocess.run([sys.executable, str(FOLDER / "make.py"), str(folder)], check=True)


def exchanges(name: str) -> list[tuple[str, str]]:
    """(what was said, the record) of every row."""
    pairs: list[tuple[str, str]] = []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        system, user, assistant = json.loads(line)["messages"]
        roles = (system["role"], user["role"], assistant["role"])
        assert roles == ("system", "user", "assistant")
        pairs.append((user["content"], assistant["content"]))
    return pairs


def values(pairs: list[tuple[str, str]]) -> dict[str, set[str]]:
    """The records, sayings, numbers, days of the year and years that the rows hold."""
    dates = [record[5:] for _, record in pairs if record.startswith("date=")]
    return {
        "record": {record for _, record in pairs},
        "saying": {said for said, _ in pairs},
        "number": {record.split("=")[1] for _, record in pairs if not record.startswith("date=")},
        "day": {date[5:] for date in dates},
        "year": {date[:4] for date in dates},
    }


def cardinal(words: str) -> int:
    """A whole number below 1000 from its words, read from left to right."""
    total = 0
    for word in re.split(r"[ -]", words):
        total = total * 100 if word == "hundred" else total + WORDS.get(word, 0)
    return total


def ordinal(words: str) -> int:
    """A day of the month from its ordinal."""
    tens, _, last = words.rpartition("-")
    stem = last.removesuffix("th")
    by_stem = {"twentie": 20, "thirtie": 30}
    ones = ORDINALS.get(last) or by_stem.get(stem) or WORDS[stem]
    return (WORDS[tens] if tens else 0) + ones


def read_saying(said: str) -> str:
    """The record of a saying by a grammar of its own, for comparison with the generator's."""
    date = re.search(r"the ([a-z-]+) of ([A-Z][a-z]+) (nineteen|twenty) ([a-z-]+)$", said)
    if date:
        day, month, century, rest = date.groups()
        year = WORDS[century] * 100 + cardinal(rest)
        return f"date={year}-{MONTHS.index(month[:3]) + 1:02d}-{ordinal(day):02d}"
    quantity = re.fullmatch(r"(?:note |it was )?(.+?) (\w+?)(?: please)?", said)
    assert quantity is not None, said
    whole, _, tenth = quantity.group(1).partition(" point ")
    number = f"{cardinal(whole)}.{WORDS[tenth]}" if tenth else f"{cardinal(whole)}"
    return f"{UNITS[quantity.group(2)]}={number}"


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    generate(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ROWS)
    for name, n_rows in ROWS.items():
        content = (tmp_path / name).read_bytes()
        assert (FOLDER / name).read_bytes() == content
        assert content.count(b"\n") == n_rows


@pytest.mark.parametrize("what", ["record", "saying", "number", "day", "year"])
def test_no_held_out_value_occurs_in_training(what: str) -> None:
    train, held_out = (values(exchanges(name))[what] for name in ("train.jsonl", "heldout.jsonl"))
    assert len(held_out) >= 20
    assert train & held_out == set()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_saying_has_the_record_that_a_second_reader_finds(name: str) -> None:
    pairs = exchanges(name)
    assert [read_saying(said) for said, _ in pairs] == [record for _, record in pairs]
    assert len({said for said, _ in pairs}) == len(pairs)
