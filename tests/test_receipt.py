"""Receipts: schema, canonical form, self-digest, places, and agreement with the table's reader."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lane_runs import LANE, edited, made, set_at

from lanes import receipt
from lanes.environment import agree, probe, variables
from lanes.observation import LARGEST, Errors, Tally, gap
from lanes.receipt import Json, ReceiptError
from matrix.receipts import parse

PREDICATE = "predicate"
ZEROS = "0" * 64


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    content = made()
    path = receipt.write(content, tmp_path / receipt.place(content))
    assert receipt.read(path) == content
    text = path.read_bytes()
    assert text == receipt.encoded(content)
    assert text.count(b"\n") == 1
    assert len(text) < 10_000


def test_the_tables_reader_takes_it() -> None:
    content = made()
    environment = content[PREDICATE]["environment"]
    place = f"{environment['class']}-{environment['toolchain']}/{LANE}.json"
    assert receipt.place(content).as_posix() == place
    read = parse(place, receipt.encoded(content))
    assert (read.lane, read.place, len(read.cases)) == (LANE, place, 4)
    assert read.digests == {e["name"]: e["digest"]["sha256"] for e in content["subject"]}


def test_self_digest_is_that_of_the_rest() -> None:
    content = made()
    rest = {**content, PREDICATE: {k: v for k, v in content[PREDICATE].items()}}
    found = rest[PREDICATE].pop("self_digest")
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert found == receipt.hashlib.sha256(text.encode()).hexdigest()


CASE = (PREDICATE, "cases", 0)
BROKEN: dict[str, Callable[[Json], None]] = {
    "predicate.schema: 1 was expected": set_at(PREDICATE, "schema", to=2),
    "None is not of type 'number'": set_at(*CASE, "errors", "max_ulp", to=None),
    r"cases\[0\].errors: None is not of type 'object'": set_at(*CASE, "errors", to=None),
    "0 is less than the minimum of 1": set_at(*CASE, "elements", to=0),
    "'skipped' is not one of": set_at(*CASE, "status", to="skipped"),
    "'said' is not of type 'null'": set_at(*CASE, "reason", to="said"),
    "bound: None is not of type 'number'": set_at(*CASE, "bound", to=None),
    "-1 is less than the minimum of 0": set_at(*CASE, "errors", "max_abs", to=-1),
    "'abc' does not match": set_at(PREDICATE, "product", "commit", to="abc"),
    "'yes' is not of type 'boolean'": set_at(PREDICATE, "product", "dirty", to="yes"),
    "'2026' does not match": set_at(PREDICATE, "run", "started", to="2026"),
    "Additional properties are not allowed": set_at(PREDICATE, "extra", to=1),
    "'' should be non-empty|'' does not match|'' is too short": set_at(
        PREDICATE, "environment", "device", to=""
    ),
    "cases: .* should be non-empty": set_at(PREDICATE, "cases", to=[]),
    "max_ulp|within its bound": set_at(*CASE, "errors", "max_ulp", to=0.6),
    "p999_abs is no larger than max_abs": set_at(*CASE, "errors", "p999_abs", to=1.0),
    "what passed as pinned is equal: 3": lambda content: (
        set_at(*CASE, "grade", to="pinned")(content),
        set_at(*CASE, "errors", "bits_differing", to=3)(content),
    )[0],
    "executed counts the cases": set_at(PREDICATE, "executed", "cases", to=5),
    "plan is that of the cases": set_at(PREDICATE, "plan", "sha256", to=ZEROS),
    "the digest of rope_tables.factors is that of its parts": set_at(
        PREDICATE, "digests", "rows", "rope_tables.factors", "kernel", to=ZEROS
    ),
    "subject names the rows of the cases": lambda content: content["subject"].pop() and None,
    "is one of backend cpu": set_at(PREDICATE, "environment", "class", to="cuda-sm80"),
    "the toolchain is that of the compiler": set_at(
        PREDICATE, "environment", "toolchain", to="clang99"
    ),
    "the device is the processor": set_at(PREDICATE, "environment", "device", to="Another"),
    "a shard is one of its number": set_at(PREDICATE, "run", "shard", to=[3, 2]),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rule_is_named_on_write_and_on_read(rule: str, tmp_path: Path) -> None:
    content = edited(made(), BROKEN[rule], resealed=True)
    with pytest.raises(ReceiptError, match=rule):
        receipt.write(content, tmp_path / "written.json")
    assert not (tmp_path / "written.json").exists()
    (tmp_path / "found.json").write_bytes(receipt.encoded(content))
    with pytest.raises(ReceiptError, match=rule):
        receipt.read(tmp_path / "found.json")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"", "Expecting value"),
        (b'{"a":1,"a":2}', "a key occurs twice"),
        (b'{"a":NaN}', "NaN is no JSON number"),
        (b"[]", "is not of type 'object'"),
    ],
)
def test_what_is_no_receipt_is_refused(text: bytes, rule: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(text)
    with pytest.raises(ReceiptError, match=rule):
        receipt.read(tmp_path / "r.json")


def test_another_spelling_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(made(), indent=1), encoding="utf-8")
    with pytest.raises(ReceiptError, match="canonical JSON"):
        receipt.read(tmp_path / "r.json")


def test_only_a_clean_whole_exhaustive_run_is_to_be_committed() -> None:
    folder = {
        "clean": receipt.home(made())[0],
        "dirty": receipt.home(
            edited(made(), set_at(PREDICATE, "product", "dirty", to=True), resealed=True)
        )[0],
        "shard": receipt.home(made((1, 2)))[0],
        "rows": receipt.home(made(rows="a*"))[0],
        "sample": receipt.home(
            edited(made(), set_at(PREDICATE, "run", "plan", to="fast"), resealed=True)
        )[0],
    }
    assert folder.pop("clean") == Path("reports/receipts")
    assert set(folder.values()) == {Path("build/receipts")}


def test_errors_are_folded_over_all_elements() -> None:
    want = np.linspace(1, 2, 4000, endpoint=False)
    got = want.astype(np.float32)
    wanted = got.astype(np.float64)
    got[:5] += np.float32(2**-20)
    tally = Tally()
    tally.add([gap(got[:2000], wanted[:2000], magnitude=None)])
    tally.add([gap(got[2000:], wanted[2000:], magnitude=None)])
    errors = tally.errors()
    assert (tally.elements, tally.inputs, errors.bits_differing) == (4000, 2, 5)
    assert errors.max_abs == errors.p999_abs == 2**-20
    assert errors.max_ulp == 8.0
    assert errors.max_rel == 2**-20
    # Four of 4,000 are the last thousandth.
    got[4] = np.float32(wanted[4])
    tally = Tally()
    tally.add([gap(got, wanted, magnitude=None)])
    assert (tally.errors().max_abs, tally.errors().p999_abs) == (2**-20, 0.0)
    assert Tally().errors() == Errors()


def test_classes_that_differ_are_the_largest_error() -> None:
    want = np.array([np.nan, np.inf, 1.0, 0.0, 1.0])
    same = gap(want.astype(np.float32), want, magnitude=None)
    assert same.absolute.tolist() == [0.0] * 5
    assert same.bits_differing == 0
    got = np.array([1.0, -np.inf, np.nan, 0.5, 1.0], np.float32)
    other = gap(got, want, magnitude=None)
    assert other.absolute.tolist() == [LARGEST, LARGEST, LARGEST, 0.5, 0.0]
    assert other.steps.tolist()[:3] == [LARGEST] * 3
    assert other.relative.tolist() == [LARGEST, 0.0]
    assert other.bits_differing == 4


def test_pinned_bits_are_those_of_the_replay() -> None:
    got = np.array([0.0, 1.0], np.float32)
    replay = np.array([-0.0, 1.0], np.float32)
    assert gap(got, got.astype(np.float64), magnitude=None).bits_differing == 0
    assert gap(got, got.astype(np.float64), magnitude=None, equal_to=replay).bits_differing == 1


def test_variables_say_no_folder_of_one_machine() -> None:
    found = variables(
        {
            "RETRO_FAULTS_LIBRARY": str(receipt.ROOT / "build" / "faults.so"),
            "OMP_PLACES": "/" + "some/where/else.txt",
            "RETRO_CPU_ISA": "portable",
            "HOME": "/" + "nobody",
        }
    )
    assert found == {
        "OMP_PLACES": "else.txt",
        "RETRO_CPU_ISA": "portable",
        "RETRO_FAULTS_LIBRARY": "build/faults.so",
    }


def test_environment_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRO_CPU_ISA", "portable")
    found = probe()
    assert found["class"] == "cpu-portable"
    assert found["variables"] == variables(dict(os.environ))
    assert agree(found, {**found, "threads": 64, "device": "renamed"})
    assert not agree(found, {**found, "class": "cpu-avx2"})
    assert not agree(found, {**found, "cpu": {"model": "x", "features": ["avx"]}})
