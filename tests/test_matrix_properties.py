"""Laws of the fold over random sets of receipts: bad news never helps, nor does hiding it."""

from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from made_receipts import COMPLETE, STEP, Made, current, declarations, receipt

from matrix.canonical import Json, canonical
from matrix.reduce import reduce
from matrix.states import SEVERITY

KINDS = ("absent", "good", "failing", "one failing", "stale", "stale and failing", "short")
PLACES = tuple(made.path for made in COMPLETE)
BY_PLACE = {made.path: made for made in COMPLETE}
# How much a state lets a user do; those that refuse are alike in that.
WORTH = {"verified": 3, "transferred": 2, "refused": 1}

sets = st.fixed_dictionaries({place: st.sampled_from(KINDS) for place in PLACES})
places = st.sampled_from(PLACES)


@cache
def _content(place: str, kind: str) -> bytes | None:
    made = BY_PLACE[place]
    kinds: dict[str, Made | None] = {
        "absent": None,
        "good": made,
        "failing": replace(made, failing=made.rows),
        "one failing": replace(made, failing=made.rows[:1]),
        "stale": replace(made, edited=made.rows),
        "stale and failing": replace(made, edited=made.rows, failing=made.rows),
        "short": replace(made, rows=made.rows[-1:]),
    }
    chosen = kinds[kind]
    return receipt(chosen) if chosen else None


def _table(kinds: dict[str, str], *, backwards: bool = False) -> Json:
    found = {place: _content(place, kind) for place, kind in kinds.items()}
    present = [(place, content) for place, content in found.items() if content]
    ordered = dict(reversed(present) if backwards else present)
    return reduce(declarations(), ordered, current(), is_ancestor=lambda _: True).table


def _states(table: Json) -> dict[str, str]:
    found = {
        f"{row} in {name}": state["state"]
        for section in ("kernel_rows", "lane_rows")
        for row, entry in table[section].items()
        for name, state in entry["states"].items()
    }
    for section in ("capabilities", "base_dtype"):
        found |= {cell: entry["state"] for cell, entry in table[section].items()}
        for cell, entry in table[section].items():
            found |= {f"{cell} in {n}": c["state"] for n, c in entry["classes"].items()}
    return found


@settings(max_examples=40)
@given(sets, places)
def test_adding_a_failing_receipt_never_improves_a_state(kinds: dict[str, str], place: str) -> None:
    before = _states(_table({**kinds, place: "absent"}))
    for kind in ("failing", "stale and failing"):
        after = _states(_table({**kinds, place: kind}))
        improved = [n for n in after if SEVERITY.index(after[n]) > SEVERITY.index(before[n])]
        assert improved == []


@settings(max_examples=40)
@given(sets, places)
def test_a_case_that_fails_instead_of_passing_never_improves_a_state(
    kinds: dict[str, str], place: str
) -> None:
    before = _states(_table({**kinds, place: "good"}))
    after = _states(_table({**kinds, place: "one failing"}))
    assert [n for n in after if SEVERITY.index(after[n]) > SEVERITY.index(before[n])] == []


@settings(max_examples=40)
@given(sets, places)
def test_taking_a_receipt_away_never_improves_a_state(kinds: dict[str, str], place: str) -> None:
    before, after = _states(_table(kinds)), _states(_table({**kinds, place: "absent"}))
    assert [n for n in after if WORTH.get(after[n], 0) > WORTH.get(before[n], 0)] == []


@settings(max_examples=40)
@given(sets)
def test_order_does_not_matter(kinds: dict[str, str]) -> None:
    assert canonical(_table(kinds)) == canonical(_table(kinds, backwards=True))


@settings(max_examples=40)
@given(sets)
def test_verified_rests_on_every_promised_receipt(kinds: dict[str, str]) -> None:
    states = _states(_table(kinds))
    for name in ("cpu-avx2", "cpu-portable"):
        good = kinds[f"{name}-gcc12/model.json"] in {"good", "short"}
        assert (states[f"{STEP} in {name}"] == "verified") == good
