"""A receipt that was changed after its run is refused with its name and the rule."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from made_receipts import COMMIT, COMPLETE, OPS, Made, receipt, sealed, sha, statement

from lanes.receipt import broken_rules
from matrix.canonical import Json, canonical
from matrix.errors import RefusedError
from matrix.receipts import parse

MADE = Made(rows=OPS)
Edit = Callable[[Json], None]


def _set(*path: str | int, to: object) -> Edit:
    def edit(content: Json) -> None:
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return edit


def _refusal(content: bytes) -> str:
    with pytest.raises(RefusedError) as caught:
        parse(MADE.path, content)
    assert all(c.where == MADE.path for c in caught.value.complaints)
    return str(caught.value)


def test_a_good_receipt_is_read() -> None:
    read = parse(MADE.path, receipt(MADE))
    assert (read.lane, read.folder, read.place) == ("ops", "cpu-avx2-gcc12", MADE.path)
    assert sorted(read.cases) == list(OPS)
    assert [c.case for c in read.cases[OPS[0]]] == ["gaussian", "lattice"]
    assert read.commit == COMMIT


def test_what_the_tests_make_up_is_a_receipt_to_the_lanes_as_well() -> None:
    for made in (*COMPLETE, replace(MADE, failing=OPS)):
        assert list(broken_rules(statement(made))) == []


# Changes that a forger who forgets the self-digest would make.
EDITS = {
    "a number": _set("predicate", "cases", 0, "errors", "max_ulp", to=1.25),
    "a digit of a digest": _set("subject", 0, "digest", "sha256", to=sha("other")),
    "the device": _set("predicate", "environment", "device", to="Another Processor"),
    "the commit": _set("predicate", "product", "commit", to="cd" * 20),
    "a status": _set("predicate", "cases", 0, "status", to="failed"),
    "a bound": _set("predicate", "cases", 0, "bound", to=100.0),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_change_breaks_the_self_digest(name: str) -> None:
    content = statement(MADE)
    EDITS[name](content)
    assert "self_digest is that of the content" in _refusal(canonical(content))


# The same forger with a recomputed self-digest; what has to be named then.
SEALED_EDITS = {
    "the digest of": _set("subject", 0, "digest", "sha256", to=sha("other")),
    "it is foreign": _set("predicate", "digests", "rows", OPS[0], "kernel", to=sha("other")),
    "max_ulp 9.0": _set("predicate", "cases", 0, "errors", "max_ulp", to=9.0),
    "a case that failed says why": _set("predicate", "cases", 0, "status", to="failed"),
    "a bounded case states its bound": _set("predicate", "cases", 0, "bound", to=None),
    "the schema is 1": _set("predicate", "schema", to=2),
    "_type is": _set("_type", to="https://in-toto.io/Statement/v2"),
    "as many cases were executed": _set("predicate", "executed", "cases", to=3),
    "plan.sha256 is that of": _set("predicate", "plan", "sha256", to=sha("other")),
    "at least one element": _set("predicate", "cases", 0, "elements", to=0),
    "run.rows": _set("predicate", "run", "rows", to="add.*"),
    "shard": _set("predicate", "run", "shard", to=[1, 2]),
    "cases is a list that is not empty": _set("predicate", "cases", to=[]),
    "product.commit": _set("predicate", "product", "commit", to="HEAD"),
    "run.plan": _set("predicate", "run", "plan", to="quick"),
    "cases[0].status": _set("predicate", "cases", 0, "status", to="skipped"),
}


@pytest.mark.parametrize("named", SEALED_EDITS)
def test_what_contradicts_itself_is_named_even_when_sealed_again(named: str) -> None:
    content = statement(MADE)
    SEALED_EDITS[named](content)
    assert named in _refusal(canonical(sealed(content)))


def test_a_missing_key_is_named() -> None:
    content = statement(MADE)
    del content["predicate"]["environment"]["device"]
    assert "environment has the key device" in _refusal(canonical(sealed(content)))


def test_two_receipts_spliced_are_refused() -> None:
    content, other = statement(MADE), statement(Made(rows=("sgd.step.f32.cpu",)))
    content["predicate"]["cases"] += other["predicate"]["cases"]
    refusal = _refusal(canonical(sealed(content)))
    assert "cases and subject name the same rows; got sgd.step.f32.cpu" in refusal


def test_cases_occur_once_and_in_order() -> None:
    content = statement(MADE)
    content["predicate"]["cases"].reverse()
    assert "cases are sorted and occur once" in _refusal(canonical(sealed(content)))
    content = statement(MADE)
    content["predicate"]["cases"].append(content["predicate"]["cases"][-1])
    assert "cases are sorted and occur once" in _refusal(canonical(sealed(content)))


def test_what_is_no_finite_json_is_refused() -> None:
    good = receipt(MADE).decode()
    assert "NaN" in _refusal(good.replace("1.5", "NaN", 1).encode())
    assert "each once" in _refusal(good.replace('"seed":0', '"seed":1,"seed":0').encode())
    assert "without spaces" in _refusal(good.replace('"seed":0', '"seed": 0').encode())
    assert parse(MADE.path, good.encode() + b"\n").seed == 0
    assert "a receipt is JSON" in _refusal(good[:-1].encode())
    assert "a receipt is a JSON object" in _refusal(b"[]")
    assert "a receipt is JSON" in _refusal(b"\xff")


def test_equality_was_claimed_and_bits_differ() -> None:
    content = statement(Made(rows=OPS, bound=None))
    content["predicate"]["cases"][0]["errors"]["bits_differing"] = 7
    assert "7 bits differ" in _refusal(canonical(sealed(content)))
