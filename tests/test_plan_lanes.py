"""Plans: committed, hashed, and cut into shards that make up the whole."""

from collections import Counter
from pathlib import Path

import pytest

from lanes import plan
from lanes.catalogue import cases, corpora
from lanes.registry import Lane, LaneError, Part, Planned, get_lane, lane, lane_names, lanes
from matrix.declared import read_plans
from retrograd.rows import declared_rows


def test_committed_plans_are_those_of_the_lanes() -> None:
    assert plan.stale() == {}
    assert plan.orphans() == []


def test_every_lane_has_a_file_and_a_plan() -> None:
    assert {"formats", "ops", "model", "exactness", "admission", "abi"} <= set(lane_names())
    found = lanes()
    assert list(found) == list(lane_names())
    assert found is not lanes()
    assert set(read_plans(plan.FOLDER)) == set(lane_names())


def test_ops_covers_every_declared_row_in_every_corpus() -> None:
    rows = {row.id for row in declared_rows()}
    for name in plan.PLANS:
        planned = get_lane("ops").planned(name)
        assert {case.row for case in planned} == rows
        seen = Counter(case.row for case in planned if not case.case.startswith("fault "))
        assert min(seen.values()) >= 4
    fast, full = (sum(c.inputs for c in get_lane("ops").planned(p)) for p in plan.PLANS)
    assert fast < full


def test_inputs_are_counted_without_making_them() -> None:
    row = next(row for row in declared_rows() if row.id == "add.forward.f32.cpu")
    for name in plan.PLANS:
        made = Counter(case.corpus for case in cases(row, name))
        assert corpora(row, name) == dict(made)
        for corpus, count in made.items():
            assert sum(1 for _ in cases(row, name, corpus)) == count


def test_hash_is_over_rows_cases_and_inputs() -> None:
    entries = [("a", "x", 1), ("b", "y", 2)]
    size = plan.size_of(entries)
    assert (size.rows, size.cases) == (2, 2)
    assert plan.size_of(reversed(entries)) == size
    for other in ([("a", "x", 1)], [("a", "x", 1), ("b", "y", 3)], [("a", "x", 1), ("b", "z", 2)]):
        assert plan.size_of(other).sha256 != size.sha256
    # Of [["a","x",1],["b","y",2]] as that text.
    assert size.sha256 == "1348b53e9888a055754e43c02d1b81e37b43dd8084b1769cc5980265b285362f"


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_make_up_the_plan(of: int) -> None:
    whole = get_lane("abi").planned("fast")
    parts = [plan.share(whole, (i + 1, of)) for i in range(of)]
    assert sorted(case for part in parts for case in part) == list(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_a_shard_is_one_of_its_number(text: str) -> None:
    with pytest.raises(LaneError, match="a shard is i/n"):
        plan.shard_of(text)


def test_a_lane_plans_each_case_once() -> None:
    twice = Part("made", "test", (), lambda _: [Planned("a", "x"), Planned("a", "x")])
    with pytest.raises(LaneError, match="each of them once; got \\[\\('a', 'x'\\)\\]"):
        Lane("made", (twice,)).planned("fast")
    with pytest.raises(LaneError, match="each of them once; got none"):
        Lane("made", ()).planned("fast")


def test_a_lane_has_the_name_of_its_file() -> None:
    def rows(_: str) -> list[Planned]:
        return []

    with pytest.raises(LaneError, match=r"got lane ops in test_plan_lanes\.py"):

        @lane("ops", rows=rows)
        def test_nothing() -> None: ...


def test_written_plans_are_what_the_check_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "FOLDER", tmp_path)
    assert plan.settle(write=False) == 1
    assert plan.settle(write=True) == 0
    assert plan.settle(write=False) == 0
    (tmp_path / "gone.toml").write_text("rows = []\n", encoding="utf-8")
    edited = tmp_path / "abi.toml"
    edited.write_text(edited.read_text("utf-8").replace("cases = ", "cases = 1"), "utf-8")
    capsys.readouterr()
    assert plan.settle(write=False) == 1
    assert "abi.toml: stale" in (said := capsys.readouterr().out)
    assert "gone.toml: no lane of that name" in said
