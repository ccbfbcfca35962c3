"""Merging shards: the union is the plan, or the exit code says that it is not."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from lane_runs import edited, made, set_at

from lanes import plan, receipt
from lanes.__main__ import main
from lanes.merge import merge
from lanes.receipt import Json, ReceiptError

PREDICATE = "predicate"


def shards(of: int) -> dict[str, Json]:
    return {f"{i + 1}.json": made((i + 1, of)) for i in range(of)}


def test_union_is_the_receipt_of_the_whole() -> None:
    merged, whole = merge(shards(3)), made()
    for part in ("product", "environment", "plan", "executed", "digests", "cases"):
        assert merged[PREDICATE][part] == whole[PREDICATE][part]
    assert merged["subject"] == whole["subject"]
    run = merged[PREDICATE]["run"]
    assert (run["shard"], run["duration_s"]) == ([1, 1], 4.5)
    parts = [content[PREDICATE]["self_digest"] for content in shards(3).values()]
    assert run["merged"] == parts
    assert list(receipt.broken_rules(merged)) == []


def test_order_does_not_matter() -> None:
    found = list(shards(4).items())
    random.Random(1).shuffle(found)
    assert merge(dict(found)) == merge(shards(4))


def _without(*names: str) -> Callable[[dict[str, Json]], dict[str, Json]]:
    return lambda found: {k: v for k, v in found.items() if k not in names}


def _changed(name: str, *path: str | int, to: object) -> Callable[[dict[str, Json]], object]:
    return lambda found: {**found, name: edited(found[name], set_at(*path, to=to), resealed=True)}


REFUSED: dict[str, Callable[[dict[str, Json]], object]] = {
    "the shards are 1/3 to 3/3: 1/3, 3/3": _without("2.json"),
    "no case occurs twice: rope_tables.factors": lambda f: {**f, "again.json": f["1.json"]},
    "2.json have one product: commit": _changed(
        "2.json", PREDICATE, "product", "commit", to="0" * 40
    ),
    "2.json have one product: dirty": _changed("2.json", PREDICATE, "product", "dirty", to=True),
    "3.json have one environment: threads": _changed(
        "3.json", PREDICATE, "environment", "threads", to=999
    ),
    "3.json have one environment: blas": _changed(
        "3.json", PREDICATE, "environment", "blas", to="another"
    ),
    "3.json are of one run: plan": _changed("3.json", PREDICATE, "run", "plan", to="fast"),
    "3.json are of one run: seed": _changed("3.json", PREDICATE, "run", "seed", to=3),
    "2.json have one digest of comparator": _changed(
        "2.json", PREDICATE, "digests", "comparator", to="0" * 64
    ),
    "2.json have one digest of fixtures": _changed(
        "2.json", PREDICATE, "digests", "fixtures", to={}
    ),
    "1/3, 2/2, 3/3": _changed("2.json", PREDICATE, "run", "shard", to=[2, 2]),
    "3.json have one plan: sha256": _changed("3.json", PREDICATE, "plan", "sha256", to="0" * 64),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_does_not_belong_together_is_refused_by_name(rule: str) -> None:
    with pytest.raises(ReceiptError, match=rule):
        merge(REFUSED[rule](shards(3)))


def test_a_foreign_plan_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = shards(2)
    text = (plan.FOLDER / "rope_tables.toml").read_text("utf-8")
    (tmp_path / "rope_tables.toml").write_text(text.replace("cases = 4", "cases = 5"), "utf-8")
    monkeypatch.setattr(plan, "FOLDER", tmp_path)
    with pytest.raises(ReceiptError, match="the plan is the committed one"):
        merge(found)


def _files(found: dict[str, Json], folder: Path) -> list[str]:
    for name, content in found.items():
        (folder / name).write_bytes(receipt.encoded(content))
    return [str(folder / name) for name in found]


def test_command_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _files(shards(2), tmp_path)
    out = tmp_path / "out"
    assert main(["merge", *files, "--out", str(out)]) == 0
    merged = next(out.glob("*/rope_tables.json"))
    assert receipt.read(merged) == merge(shards(2))
    assert main(["merge", files[0], "--out", str(out)]) == 2
    assert main(["merge", *files, files[1], "--out", str(out)]) == 2
    assert main(["merge", *files, str(tmp_path / "gone.json"), "--out", str(out)]) == 2
    failed = edited(
        made((2, 2)),
        lambda c: c[PREDICATE]["cases"][0].update(status="failed", reason="it was wrong"),
        resealed=True,
    )
    (tmp_path / "2.json").write_bytes(receipt.encoded(failed))
    capsys.readouterr()
    assert main(["merge", *files, "--out", str(out)]) == 1
    assert "failed: it was wrong" in capsys.readouterr().out
