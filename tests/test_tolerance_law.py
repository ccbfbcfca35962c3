"""The law of tolerances: bounds are lowered by as much evidence as set them, and never raised.

And nothing but ``lanes/tolerances.toml`` and the derived ceilings holds one.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import measure, tolerances
from lanes.tolerances import RaisedError, Tolerance, lawful_bound, merged

ROOT = Path(__file__).resolve().parent.parent
OLD = Tolerance(
    samples=1000,
    seeds=8,
    environments=("cpu-avx2", "cpu-portable"),
    worst=3.0,
    p999=1.0,
    ceiling=50.0,
    bound=10.0,
)
CLASSES = ("cpu-avx2", "cpu-avx512", "cpu-portable", "cuda-90")
STEPS = st.just(0.0) | st.floats(min_value=1e-12, max_value=1e6)


@st.composite
def measured(draw: st.DrawFn) -> Tolerance:
    """What a measurement may record."""
    ceiling = draw(STEPS)
    worst = min(draw(STEPS), ceiling)
    return Tolerance(
        samples=draw(st.integers(1, 10**7)),
        seeds=draw(st.integers(1, 16)),
        environments=tuple(sorted(draw(st.sets(st.sampled_from(CLASSES), min_size=1)))),
        worst=worst,
        p999=draw(st.floats(min_value=0.0, max_value=worst)),
        ceiling=ceiling,
        bound=lawful_bound(worst, ceiling),
    )


@given(old=measured(), new=measured())
def test_a_bound_is_never_raised(old: Tolerance, new: Tolerance) -> None:
    try:
        kept = merged(old, new, "row")
    except RaisedError:
        assert new.worst > old.bound
        return
    assert kept in (old, replace(new, bound=min(old.bound, new.bound)))
    assert kept.bound <= old.bound
    assert new.worst <= kept.bound


@given(old=measured(), new=measured())
def test_a_bound_is_lowered_by_as_much_evidence_only(old: Tolerance, new: Tolerance) -> None:
    if new.worst > old.bound:
        with pytest.raises(RaisedError, match="never raised"):
            merged(old, new, "row")
        return
    if merged(old, new, "row") != old:
        assert new.samples >= old.samples
        assert new.seeds >= old.seeds
        assert set(new.environments) >= set(old.environments)


@given(entries=st.lists(measured(), min_size=1, max_size=6))
def test_bounds_only_fall_over_any_series_of_measurements(entries: list[Tolerance]) -> None:
    held: Tolerance | None = None
    for new in entries:
        before = held
        try:
            held = merged(held, new, "row")
        except RaisedError:
            continue
        assert before is None or held.bound <= before.bound


@pytest.mark.parametrize(
    "fewer",
    [
        {"samples": 999},
        {"seeds": 7},
        {"environments": ("cpu-avx2",)},
        {"environments": ("cuda-90",)},
    ],
)
def test_less_evidence_lowers_nothing(fewer: dict[str, object]) -> None:
    lower = replace(OLD, worst=0.5, bound=1.0)
    assert merged(OLD, lower, "row") == lower
    assert merged(OLD, replace(lower, **fewer), "row") == OLD  # type: ignore[arg-type]


def test_a_result_above_the_bound_is_named() -> None:
    with pytest.raises(RaisedError, match=r"\[some\.row\] observed 11 steps, recorded bound 10"):
        merged(OLD, replace(OLD, worst=11.0, bound=50.0), "some.row")
    wider = replace(OLD, samples=2000, worst=6.0, bound=20.0)
    assert merged(OLD, wider, "row") == replace(wider, bound=10.0)


@given(worst=STEPS, ceiling=STEPS)
def test_bound_lies_between_the_worst_and_the_ceiling(worst: float, ceiling: float) -> None:
    if worst > ceiling:
        with pytest.raises(ValueError, match="derived ceiling"):
            lawful_bound(worst, ceiling)
        return
    bound = lawful_bound(worst, ceiling)
    assert worst <= bound <= ceiling
    assert bound == ceiling or bound <= 5.001 * worst


@pytest.mark.parametrize(
    ("worst", "ceiling", "bound"),
    [
        (0.0, 9.0, 0.0),
        (0.5, 0.5, 0.5),
        (0.3, 9.0, 1.0),
        (1.0, 9.0, 2.0),
        (1.01, 9.0, 5.0),
        (2.6, 50.0, 10.0),
        (40.0, 60.0, 60.0),
    ],
)
def test_law_of_bounds(worst: float, ceiling: float, bound: float) -> None:
    assert lawful_bound(worst, ceiling) == bound


def test_nothing_above_a_derived_ceiling_gets_a_bound() -> None:
    with pytest.raises(measure.BrokenError, match="derived ceiling"):
        measure.measure_whole(lambda _folder, _seed: (np.array([3.0]), 2.0), ROOT)
    with pytest.raises(measure.BrokenError, match="derived ceiling"):
        measure.measure_whole(lambda _folder, _seed: (np.array([np.inf]), 2.0), ROOT)
    with pytest.raises(measure.BrokenError, match="over 0 elements"):
        measure.measure_whole(lambda _folder, _seed: (np.array([]), 2.0), ROOT)


def test_the_command_keeps_a_bound_that_a_worse_result_would_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tolerances.toml"
    path.write_text(tolerances.text({"add.forward.f32.cpu": OLD}), encoding="utf-8")
    monkeypatch.setattr(tolerances, "PATH", path)
    monkeypatch.setattr(tolerances.read, "__defaults__", (path,))
    before = path.read_bytes()
    worse = replace(OLD, worst=20.0, bound=50.0)
    assert measure.record({"add.forward.f32.cpu": lambda: worse}) == 1
    assert path.read_bytes() == before
    assert "never raised" in capsys.readouterr().err
    better = replace(OLD, worst=1.0, bound=2.0)
    assert measure.record({"add.forward.f32.cpu": lambda: better}) == 0
    assert tolerances.read()["add.forward.f32.cpu"] == better


def test_entries_survive_the_file(tmp_path: Path) -> None:
    table = {"add.forward.f32.cpu": OLD, "whole.loss.x": replace(OLD, environments=("cuda-90",))}
    path = tmp_path / "tolerances.toml"
    path.write_text(tolerances.text(table), encoding="utf-8")
    assert tolerances.read(path) == table


def test_every_recorded_bound_says_where_it_was_measured() -> None:
    for name, entry in tolerances.read().items():
        assert entry.environments, name
        assert list(entry.environments) == sorted(set(entry.environments)), name
        assert all(re.fullmatch(r"[a-z]+-[a-z0-9]+", word) for word in entry.environments), name


def test_nothing_can_raise_a_bound_on_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lanes.measure", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(re.findall(r"--\w+", done.stdout)) == {"--only", "--help"}


# Names under which numbers like to serve as a tolerance.
_NAMES = re.compile(r"(^|_)(atol|rtol|tol|tolerance|tolerances|bound|bounds|abs_tol|rel_tol)$")
_CALLS = frozenset(
    {"isclose", "allclose", "assert_allclose", "approx", "assert_array_almost_equal"}
)
_JUDGES = ("lanes", "matrix", "oracles")
# Derivations stand here, each with its reason.
_DERIVED = frozenset({"lanes/ceilings.py"})
_SMALL = 1e-2


def _number(node: ast.AST | None) -> bool:
    """A number that stands in the source, 0 apart: asking for equality is no tolerance."""
    nodes = [] if node is None else list(ast.walk(node))
    arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    values = [n.value for n in nodes if isinstance(n, ast.Constant)]
    return (
        all(isinstance(n, arithmetic) for n in nodes)
        and all(isinstance(v, (int, float)) for v in values)
        and any(not isinstance(v, bool) and v != 0 for v in values)
    )


def _held(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and _NAMES.search(node.arg or "") and _number(node.value):
            yield node.value.lineno, f"{node.arg}="
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (ast.unparse(target).lower() for target in targets):
                if _NAMES.search(name):
                    yield node.lineno, name
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _CALLS:
            yield node.lineno, ast.unparse(node.func)
        elif isinstance(node, ast.Compare):
            small = [
                side
                for op, side in zip(node.ops, node.comparators, strict=True)
                if isinstance(op, ast.Lt | ast.LtE)
                for part in ast.walk(side)
                if isinstance(part, ast.Constant)
                and isinstance(part.value, float)
                and 0 < part.value < _SMALL
            ]
            if small:
                yield node.lineno, ast.unparse(node)


def test_nothing_else_holds_a_bound() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for folder in _JUDGES
        for path in sorted((ROOT / folder).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in _DERIVED
        for line, what in _held(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "within(a, b, bound=2.5, magnitude=None)",
        "check(a, rtol=1e-6)",
        "BOUND = 3 * 2",
        "tolerance: float = 1e-5",
        "assert np.isclose(a, b)",
        "assert abs(a - b) <= 1e-7 * size",
        "assert abs(a - b) < 1e-7",
    ],
)
def test_the_search_for_bounds_finds_them(line: str) -> None:
    assert list(_held(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["f(bound=limit)", "f(bound=None)", "f(bound=0.0)", "x < 3", "n = 2"]
)
def test_the_search_for_bounds_leaves_the_rest(line: str) -> None:
    assert not list(_held(ast.parse(line)))
