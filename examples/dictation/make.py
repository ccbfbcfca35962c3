"""Writes the dictation data set: spoken quantities and dates, and the one record each stands for.

    python examples/dictation/make.py            writes train.jsonl and heldout.jsonl beside itself
    python examples/dictation/make.py FOLDER     writes them into FOLDER

Two kinds of row. A quantity: "four hundred and six kilograms" is ``kg=406``. A date: "the ninth of
May twenty thirty-one" is ``date=2031-05-09``. Values are dealt to the two files before any row is
built: a number, a day of the year or a year that one file speaks is never spoken in the other.
The deal is an order by SHA-256, so the bytes depend on this script alone.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM = "Write as unit=number or date=year-month-day."
SEED = "dictation 1"

ONES = [
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
TENS = ("", "", *["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
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
QUANTITY_FRAMES = ("{}", "{} please", "note {}", "it was {}")
DATE_FRAMES = ("{}", "due {}", "on {}", "book {}")
WHOLE_NUMBERS = tuple(str(value) for value in range(2, 1000))
DECIMALS = tuple(f"{whole}.{tenth}" for whole in range(100) for tenth in range(1, 10))
DAYS = tuple(
    f"{m + 1:02d}-{d:02d}" for m, days in enumerate(MONTH_DAYS) for d in range(1, days + 1)
)
YEARS = tuple(str(year) for year in (*range(1951, 2000), *range(2011, 2050)))


@dataclass(frozen=True)
class Counts:
    """Rows of each kind in one file."""

    name: str
    whole_numbers: int
    decimals: int
    dates: int


FILES = (Counts("heldout", 40, 16, 44), Counts("train", 240, 80, 240))
HELD_OUT_YEARS = 20


def spoken_integer(value: int) -> str:
    """The English words of 0 to 999, with "and" after the hundreds."""
    if value < 20:
        return ONES[value]
    if value < 100:
        return TENS[value // 10] + (f"-{ONES[value % 10]}" if value % 10 else "")
    tail = f" and {spoken_integer(value % 100)}" if value % 100 else ""
    return f"{ONES[value // 100]} hundred{tail}"


def spoken_number(digits: str) -> str:
    """The words of a whole number or of one with a single decimal, such as ``12.5``."""
    whole, _, tenth = digits.partition(".")
    words = spoken_integer(int(whole))
    return f"{words} point {ONES[int(tenth)]}" if tenth else words


def spoken_date(year: str, day_of_year: str) -> str:
    """Such as "the thirty-first of May nineteen eighty-four"."""
    month, day = (int(part) for part in day_of_year.split("-"))
    if day <= 20:
        ordinal = ORDINALS[day - 1]
    elif day == 30:
        ordinal = "thirtieth"
    else:
        ordinal = f"{TENS[day // 10]}-{ORDINALS[day % 10 - 1]}"
    year_words = f"{spoken_integer(int(year[:2]))} {spoken_integer(int(year[2:]))}"
    return f"the {ordinal} of {MONTHS[month - 1]} {year_words}"


def deal(values: tuple[str, ...], what: str) -> list[str]:
    """The values in the order that their SHA-256 decides."""
    return sorted(values, key=lambda v: hashlib.sha256(f"{SEED}/{what}/{v}".encode()).digest())


def row(spoken: str, record: str) -> str:
    """One line of JSON: system message, what was said, the record."""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": spoken},
        {"role": "assistant", "content": record},
    ]
    return json.dumps({"messages": messages})


def rows_of(numbers: list[str], days: list[str], years: list[str]) -> Iterator[str]:
    """The rows of one file from the values dealt to it; frames, units and years take turns."""
    units = list(UNITS.items())
    for i, number in enumerate(numbers):
        word, code = units[i % len(units)]
        frame = QUANTITY_FRAMES[i // len(units) % len(QUANTITY_FRAMES)]
        yield row(frame.format(f"{spoken_number(number)} {word}"), f"{code}={number}")
    for i, day in enumerate(days):
        year = years[i % len(years)]
        frame = DATE_FRAMES[i % len(DATE_FRAMES)]
        yield row(frame.format(spoken_date(year, day)), f"date={year}-{day}")


def files() -> dict[str, str]:
    """File name to content; the held-out file takes its values first, training from the rest."""
    whole, decimals = deal(WHOLE_NUMBERS, "whole"), deal(DECIMALS, "decimal")
    days, years = deal(DAYS, "day"), deal(YEARS, "year")
    years_of = {"heldout": years[:HELD_OUT_YEARS], "train": years[HELD_OUT_YEARS:]}
    made: dict[str, str] = {}
    for counts in FILES:
        numbers = [whole.pop() for _ in range(counts.whole_numbers)]
        numbers += [decimals.pop() for _ in range(counts.decimals)]
        chosen = [days.pop() for _ in range(counts.dates)]
        lines = rows_of(deal(tuple(numbers), "turn"), chosen, years_of[counts.name])
        made[f"{counts.name}.jsonl"] = "".join(f"{line}\n" for line in lines)
    return made


def main(arguments: list[str]) -> None:
    """Writes both files."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, content in files().items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
