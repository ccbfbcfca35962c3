"""Tampering with receipts: each change is caught and named, or the docs say what would catch it.

`HELD` is caught by the receipt and this checkout even with a recomputed self-digest, `RERUN` by
running the case again, `SIGNED` by a signature alone.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from lane_runs import edited, made, set_at

from lanes import receipt, verify
from lanes.__main__ import main
from lanes.receipt import Json, ReceiptError
from lanes.run import Request, observe
from lanes.verify import differences, foreign, verify_file

Change = Callable[[Json], object]
P = "predicate"
CASE = (P, "cases", 1)
ROW = "rope_tables.factors"
# A commit of nobody: 40 digits that no object of a repository has.
NOBODY = "1234567890" * 4
DIGESTS = ("current_digests", "lane_row_digests", "comparator_digest", "fixture_digests")
ONCE = {name: cache(getattr(verify, name)) for name in DIGESTS}


@pytest.fixture(autouse=True)
def _asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources of this checkout do not change while its tests run."""
    for name, function in ONCE.items():
        monkeypatch.setattr(verify, name, function)


def _digit(text: str) -> str:
    return ("0" if text[0] != "0" else "1") + text[1:]


def _row_digest(content: Json) -> None:
    parts = content[P]["digests"]["rows"][ROW]
    parts["kernel"] = _digit(parts["kernel"])


def _row_digest_and_subject(content: Json) -> None:
    _row_digest(content)
    block = content[P]["digests"]
    parts = block["rows"][ROW]
    content["subject"][0]["digest"]["sha256"] = receipt.row_digest(ROW, parts, block["comparator"])


def _comparator(content: Json) -> None:
    block = content[P]["digests"]
    block["comparator"] = _digit(block["comparator"])
    for entry in content["subject"]:
        parts = block["rows"][entry["name"]]
        digest = receipt.row_digest(entry["name"], parts, block["comparator"])
        entry["digest"]["sha256"] = digest


def _splice(content: Json) -> None:
    """A case of a receipt of another plan in place of one of ours."""
    other = made(lane="formats")[P]["cases"][0]
    content[P]["cases"][0] = other


def _both(content: Json) -> None:
    """All of another receipt appended."""
    other = made(lane="formats")
    content["subject"] = sorted([*content["subject"], *other["subject"]], key=lambda e: e["name"])
    content[P]["digests"]["rows"].update(other[P]["digests"]["rows"])
    cases = [*content[P]["cases"], *other[P]["cases"]]
    content[P]["cases"] = sorted(cases, key=lambda c: (c["row"], c["case"]))
    content[P]["executed"] = {"rows": len(content["subject"]), "cases": len(cases)}


def _renamed_twice(content: Json) -> None:
    set_at(P, "environment", "device", to="Faster")(content)
    set_at(P, "environment", "cpu", "model", to="Faster")(content)


HELD: dict[str, tuple[Change, str]] = {
    "an error beyond its bound": (set_at(*CASE, "errors", "max_ulp", to=7.0), "within its bound"),
    "an error below its percentile": (
        set_at(*CASE, "errors", "max_rel", to=1e-9),
        "p999_rel is no larger than max_rel",
    ),
    "a digit of a part": (_row_digest, f"the digest of {ROW} is that of its parts"),
    "a digit of a part and its subject": (
        _row_digest_and_subject,
        f"{ROW} is at this checkout's digest: kernel differ",
    ),
    "a digit of a subject": (
        lambda c: set_at("subject", 0, "digest", "sha256", to="0" * 64)(c),
        f"the digest of {ROW} is that of its parts",
    ),
    "the comparator": (_comparator, "the comparator is this checkout's"),
    "a fixture": (set_at(P, "digests", "fixtures", "real_model", to="0" * 64), "real_model"),
    "the device": (set_at(P, "environment", "device", to="Faster"), "the device is the processor"),
    "the class": (set_at(P, "environment", "class", to="cuda-sm90"), "is one of backend cpu"),
    "the toolchain": (set_at(P, "environment", "toolchain", to="gcc99"), "that of the compiler"),
    "the commit": (set_at(P, "product", "commit", to=NOBODY), f"an ancestor.*: {NOBODY}"),
    "the version": (set_at(P, "product", "version", to="9.9.9"), "that of its commit: 9.9.9"),
    "a status without a word": (set_at(*CASE, "status", to="failed"), "None is not of type"),
    "a status": (
        lambda c: c[P]["cases"][1].update(status="refused", reason="no"),
        "is refused as predicted: no",
    ),
    "a plan": (set_at(P, "plan", "sha256", to="0" * 64), "plan is that of the cases"),
    "a count": (set_at(P, "executed", "cases", to=3), "executed counts the cases"),
    "inputs": (set_at(*CASE, "counters", "inputs", to=2), "plan is that of the cases"),
    "a case left out": (lambda c: c[P]["cases"].pop(), "names the rows of the cases"),
    "a case of another receipt": (_splice, "subject names the rows of the cases: formats"),
    "two receipts in one": (_both, "plan is that of the cases"),
}
RERUN: dict[str, tuple[Change, str]] = {
    "a number": (set_at(*CASE, "errors", "max_abs", to=3.1e-08), "max_abs was 3.1e-08, is"),
    "bits": (set_at(*CASE, "errors", "bits_differing", to=3), "bits_differing was 3, is 0"),
    "elements": (set_at(*CASE, "elements", to=9600), "elements was 9600, is 4800"),
    "a status with a reason": (
        lambda c: c[P]["cases"][1].update(status="failed", reason="it was wrong"),
        "status was 'failed', is 'passed'",
    ),
}
SIGNED: dict[str, Change] = {
    "the duration": set_at(P, "run", "duration_s", to=0.1),
    "the start": set_at(P, "run", "started", to="2030-01-01T00:00:00Z"),
    "the command": set_at(P, "run", "command", to="python -m lanes run rope_tables"),
    "the processor, in both places": _renamed_twice,
}


def _written(content: Json, folder: Path) -> Path:
    path = folder / "receipt.json"
    path.write_bytes(receipt.encoded(content))
    return path


def test_an_honest_receipt_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(made(), tmp_path)
    assert verify_file(path) == 0
    assert "4 cases are what was written at this source" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0


@pytest.mark.parametrize("what", [*HELD, *RERUN, *SIGNED])
def test_any_change_breaks_the_self_digest(what: str) -> None:
    change = SIGNED[what] if what in SIGNED else {**HELD, **RERUN}[what][0]
    content = edited(made(), change, resealed=False)
    broken = list(receipt.broken_rules(content))
    assert any("self_digest is that of" in rule or rule.startswith("schema") for rule in broken)


@pytest.mark.parametrize("what", HELD)
def test_change_is_named_although_the_self_digest_was_recomputed(what: str, tmp_path: Path) -> None:
    change, rule = HELD[what]
    path = _written(edited(made(), change, resealed=True), tmp_path)
    with pytest.raises(ReceiptError, match=rule):
        verify_file(path)
    assert main(["verify", str(path)]) == 2


@pytest.fixture(scope="module")
def run_again() -> Json:
    """The lane's own receipt, from a run."""
    verdicts, receipts = observe(Request("rope_tables", "full", cases=_every()))
    assert verdicts["rope_tables"].code == 0
    return receipts["rope_tables"]


def _every() -> frozenset[tuple[str, str]]:
    return frozenset((case["row"], case["case"]) for case in made()[P]["cases"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", RERUN)
def test_change_within_the_rules_is_named_by_a_rerun(what: str, run_again: Json) -> None:
    change, line = RERUN[what]
    honest = edited(made(), lambda c: c[P].update(cases=run_again[P]["cases"]), resealed=True)
    content = edited(honest, change, resealed=True)
    assert list(receipt.broken_rules(content)) == []
    assert list(foreign(content)) == []
    now = run_again[P]["cases"]
    found = [x for a, b in zip(content[P]["cases"], now, strict=True) for x in _all(a, b)]
    assert any(line in text for text in found)
    assert [x for a, b in zip(honest[P]["cases"], now, strict=True) for x in _all(a, b)] == []


def _all(then: Json, now: Json) -> list[str]:
    return list(differences(then, now, same=True))


@pytest.mark.parametrize("what", SIGNED)
def test_what_only_a_signature_catches(what: str) -> None:
    content = edited(made(), SIGNED[what], resealed=True)
    assert list(receipt.broken_rules(content)) == []
    assert list(foreign(content)) == []


@pytest.mark.exhaustive
def test_rerun_compares_with_what_runs(
    run_again: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def from_run(content: Json) -> None:
        content[P]["cases"] = run_again[P]["cases"]

    honest = edited(made(), from_run, resealed=True)
    changed = edited(honest, set_at(*CASE, "errors", "max_abs", to=3.1e-08), resealed=True)
    assert verify_file(_written(changed, tmp_path)) == 0
    capsys.readouterr()
    assert main(["verify", str(_written(changed, tmp_path)), "--rerun", "4"]) == 1
    said = capsys.readouterr().out
    assert "rope_tables.linear (tables): max_abs was 3.1e-08, is" in said
    assert "rerun: 4 cases compared bit by bit, 1 contradictions" in said


@pytest.mark.exhaustive
def test_rerun_is_of_a_sample_on_the_variant_of_the_receipt(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRO_CPU_ISA", "portable")
    assert main(["run", "rope_tables", "--out", str(tmp_path)]) == 0
    monkeypatch.delenv("RETRO_CPU_ISA")
    path = next(tmp_path.glob("cpu-portable-*/rope_tables.json"))
    capfd.readouterr()
    assert main(["verify", str(path), "--rerun", "2"]) == 0
    assert "rerun: 2 cases compared bit by bit, 0 contradictions" in capfd.readouterr().out
    assert "RETRO_CPU_ISA" not in os.environ


def test_elsewhere_the_bound_decides(run_again: Json) -> None:
    then, now = (edited(run_again, lambda _: None, resealed=True)[P]["cases"][0] for _ in range(2))
    now["errors"]["max_abs"] *= 2
    assert list(differences(then, now, same=False)) == []
    assert len(list(differences(then, now, same=True))) == 1
    now["errors"]["max_ulp"] = 0.6
    found = list(differences(then, now, same=False))
    assert found == [f"{ROW} (tables): max_ulp is beyond the bound {then['bound']}: 0.6"]


def test_sample_is_chosen_by_the_reader() -> None:
    chosen = verify.sample(made(), 2, "a")
    assert chosen == verify.sample(made(), 2, "a")
    assert len(verify.sample(made(), 99, "a")) == 4
    seen = {case["row"] for seed in map(str, range(40)) for case in verify.sample(made(), 1, seed)}
    assert len(seen) == 4


def test_a_receipt_that_says_failed_is_no_success(tmp_path: Path) -> None:
    content = edited(made(), RERUN["a status with a reason"][0], resealed=True)
    assert main(["verify", str(_written(content, tmp_path))]) == 1


def test_what_is_not_there_is_not_verified(tmp_path: Path) -> None:
    assert main(["verify", str(tmp_path / "gone.json")]) == 2
    assert main(["verify", str(_written(made(), tmp_path)), "--rerun", "-1"]) == 2


def test_a_receipt_lies_in_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setattr(verify, "_git", lambda *_: f'VERSION = "{made()[P]["product"]["version"]}"')
    path = tmp_path / "reports" / "receipts" / "cpu-other" / "rope_tables.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(receipt.encoded(made()))
    with pytest.raises(ReceiptError, match="it lies where its environment and lane put it"):
        verify_file(path)
    right = tmp_path / "reports" / "receipts" / receipt.place(made())
    right.parent.mkdir()
    right.write_bytes(receipt.encoded(made()))
    assert verify_file(right) == 0
