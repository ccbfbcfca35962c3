"""Which state follows from which receipts, and which receipts are not taken."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_receipts import (
    COMPLETE,
    CUDA,
    MUON,
    OPS,
    REFUSAL,
    STEP,
    Made,
    current,
    declarations,
    environment,
    receipt,
    receipts,
    sealed,
    statement,
)

from matrix.canonical import Json, canonical, digest_of
from matrix.declared import Plan
from matrix.errors import RefusedError
from matrix.findings import Current
from matrix.receipts import parse
from matrix.reduce import reduce
from matrix.states import worst as worst_state

LORA, MUON_CELL = "training.lora.cpu", "optimizers.muon.cpu"


def _table(*made: Made, now: Current | None = None, bounds: dict[str, float] | None = None) -> Json:
    declared = declarations(bounds=bounds)
    given = now or current()
    return reduce(declared, receipts(*made), given, is_ancestor=lambda _: True).table


def _states(table: Json, row: str) -> dict[str, str]:
    section = "kernel_rows" if row in table["kernel_rows"] else "lane_rows"
    return {name: entry["state"] for name, entry in table[section][row]["states"].items()}


def _but(made: Sequence[Made], *changed: Made) -> tuple[Made, ...]:
    """The receipts, with those of the same places replaced."""
    by_path = {m.path: m for m in made} | {m.path: m for m in changed}
    return tuple(by_path.values())


def test_nothing_was_run() -> None:
    table = _table()
    assert set(_states(table, OPS[0]).values()) == {"not measured"}
    assert {cell["state"] for cell in table["capabilities"].values()} == {"not measured"}
    assert table["capabilities"]["training.ppo.cpu"]["cause"] == "nothing is built"


def test_everything_promised_was_run() -> None:
    table = _table(*COMPLETE)
    assert _states(table, OPS[0]) == {"cpu-avx2": "verified", "cpu-portable": "verified"}
    assert _states(table, STEP) | {"cuda-sm80": "", "cuda-sm90": ""} == {
        **{"cpu-avx2": "verified", "cpu-portable": "verified"},
        **{"cuda-sm80": "", "cuda-sm90": ""},
    }
    assert table["capabilities"][LORA]["state"] == "verified"
    assert table["capabilities"][LORA]["classes"]["cpu-avx2"]["held_back_by"] == []
    assert table["capabilities"][MUON_CELL]["state"] == "refused"
    assert all(
        promise["missing"] == {}
        for entry in table["environments"].values()
        for promise in entry["lanes"].values()
    )


def test_a_class_that_promises_nothing_takes_over_from_another() -> None:
    table = _table(*COMPLETE)
    assert _states(table, CUDA) == {"cuda-sm80": "verified", "cuda-sm90": "transferred"}
    entry = table["kernel_rows"][CUDA]["states"]["cuda-sm90"]
    assert (entry["cause"], entry["receipt"]) == (
        "verified in cuda-sm80",
        "cuda-sm80-nvcc13/ops.json",
    )
    # The cell itself is judged where evidence is promised.
    assert table["capabilities"]["training.lora.cuda"]["state"] == "verified"


def test_the_entry_carries_what_admission_needs() -> None:
    table = _table(*COMPLETE)
    row = table["kernel_rows"][OPS[0]]
    state = row["states"]["cpu-avx2"]
    assert state["digest"] == row["digest"] == current().digests[OPS[0]]
    assert row["parts"] == current().parts[OPS[0]]
    assert (state["worst"], state["bound"], state["grade"]) == (1.5, 2.0, "bounded")
    assert (state["elements"], state["toolchain"]) == (2000, "clang16")


def test_an_edited_kernel_is_stale_and_names_the_part() -> None:
    table = _table(*COMPLETE, now=current(edited=OPS[0]))
    assert set(_states(table, OPS[0]).values()) == {"stale"}
    assert table["kernel_rows"][OPS[0]]["states"]["cpu-avx2"]["cause"] == "changed since: kernel"
    assert set(_states(table, OPS[1]).values()) == {"verified"}
    cell = table["capabilities"][LORA]
    assert cell["state"] == "stale"
    assert cell["classes"]["cpu-avx2"]["held_back_by"] == [OPS[0]]


def test_another_comparator_makes_everything_stale() -> None:
    table = _table(*COMPLETE, now=current(comparator="0" * 64))
    assert set(_states(table, STEP).values()) >= {"stale"}
    assert table["kernel_rows"][CUDA]["states"]["cuda-sm80"]["cause"] == "changed since: comparator"


def test_a_row_without_a_digest_here_is_stale() -> None:
    table = _table(*COMPLETE, now=current(but=CUDA))
    assert _states(table, CUDA) == {"cuda-sm80": "stale", "cuda-sm90": "not measured"}


def test_one_failing_toolchain_fails_the_class() -> None:
    table = _table(*_but(COMPLETE, Made(rows=OPS, toolchain="clang16", failing=OPS[:1])))
    assert _states(table, OPS[0]) == {"cpu-avx2": "failed", "cpu-portable": "verified"}
    entry = table["kernel_rows"][OPS[0]]["states"]["cpu-avx2"]
    assert entry["receipt"] == "cpu-avx2-clang16/ops.json"
    assert entry["cause"] == "case gaussian: above its bound"
    assert table["capabilities"][LORA]["state"] == "failed"


def test_a_promise_that_is_not_kept_leaves_the_class_not_measured() -> None:
    made = [m for m in COMPLETE if m.toolchain != "clang16"]
    table = _table(*made)
    assert _states(table, OPS[0]) == {"cpu-avx2": "not measured", "cpu-portable": "verified"}
    cause = table["kernel_rows"][OPS[0]]["states"]["cpu-avx2"]["cause"]
    assert cause == "cpu-avx2-clang16/ops.json does not show it"


def test_a_row_that_the_receipt_leaves_out_is_not_measured() -> None:
    table = _table(*_but(COMPLETE, Made(rows=OPS[:1])))
    assert _states(table, OPS[1])["cpu-avx2"] == "not measured"


def test_bounds_of_today_decide() -> None:
    lowered = {OPS[0]: 1.0, OPS[1]: 2.0, CUDA: 2.0}
    table = _table(*COMPLETE, bounds=lowered)
    entry = table["kernel_rows"][OPS[0]]["states"]["cpu-avx2"]
    assert (entry["state"], entry["bound"]) == ("failed", 1.0)
    assert "tolerance: 1.5 above the bound 1" in entry["cause"]
    unbounded = _table(*COMPLETE, bounds={OPS[1]: 2.0, CUDA: 2.0})
    assert _states(unbounded, OPS[0])["cpu-avx2"] == "stale"


def test_of_several_figures_the_one_nearest_its_bound_is_shown() -> None:
    """Over cases, then environments of a class, then rows of a cell."""
    content = statement(Made(rows=OPS))
    for case, worst in zip(content["predicate"]["cases"], (0.5, 1.0, 1.25, 0.25), strict=True):
        case["errors"]["max_ulp"] = worst
    made = [replace(m, worst=0.5) if m.lane == "model" else m for m in COMPLETE]
    made = _but(
        made,
        Made(rows=OPS, toolchain="clang16", worst=0.75),
        Made(rows=OPS, env_class="cpu-portable"),
    )
    given = receipts(*made) | {Made().path: canonical(sealed(content))}
    table = reduce(declarations(), given, current(), is_ancestor=lambda _: True).table
    states = [table["kernel_rows"][row]["states"]["cpu-avx2"] for row in OPS]
    assert [state["worst"] for state in states] == [1.0, 1.25]
    assert [state["toolchain"] for state in states] == ["gcc12", "gcc12"]
    classes = table["capabilities"][LORA]["classes"]
    assert classes["cpu-avx2"]["closest"] == {"row": OPS[1], "worst": 1.25, "bound": 2.0}
    assert classes["cpu-portable"]["closest"]["worst"] == 1.5


def test_the_worst_state_wins() -> None:
    order = ["failed", "stale", "not measured", "refused", "transferred", "verified"]
    for place, state in enumerate(order):
        assert worst_state(reversed(order[place:])) == state


def test_a_declared_refusal_needs_its_very_message() -> None:
    other = Made(lane="admission", rows=(MUON,), refusing={MUON: "no"})
    assert _table(*_but(COMPLETE, other))["capabilities"][MUON_CELL]["state"] == "failed"
    ran = Made(lane="admission", rows=(MUON,))
    table = _table(*_but(COMPLETE, ran))
    assert table["capabilities"][MUON_CELL]["state"] == "failed"
    assert "it passed" in table["lane_rows"][MUON]["states"]["cpu-avx2"]["cause"]


def test_a_refusal_that_nobody_declared_is_a_failure() -> None:
    table = _table(*_but(COMPLETE, Made(rows=OPS, refusing={OPS[0]: REFUSAL})))
    assert _states(table, OPS[0])["cpu-avx2"] == "failed"


def test_a_case_that_was_cut_out_is_missed() -> None:
    """The forger counts, hashes and seals again; the committed plan knows better."""
    whole = parse(Made(rows=OPS).path, receipt(Made(rows=OPS))).planned
    declared = replace(declarations(), plans={"ops": Plan(frozenset(OPS), {"full": whole})})
    cut = _but(COMPLETE, Made(rows=OPS, corpora=("lattice",)))
    table = reduce(declared, receipts(*cut), current(), is_ancestor=lambda _: True).table
    entry = table["kernel_rows"][OPS[0]]["states"]["cpu-avx2"]
    assert (entry["state"], entry["cause"]) == ("stale", "changed since: the cases of its plan")
    assert _states(table, OPS[0])["cpu-portable"] == "verified"


def test_a_receipt_of_an_unclean_tree_is_ignored_and_said_to_be() -> None:
    made = _but(COMPLETE, Made(rows=OPS, dirty=True))
    reduction = reduce(declarations(), receipts(*made), current(), is_ancestor=lambda _: True)
    assert reduction.local == ("cpu-avx2-gcc12/ops.json",)
    assert _states(reduction.table, OPS[0])["cpu-avx2"] == "not measured"


def test_the_table_carries_its_own_digest() -> None:
    table = _table(*COMPLETE)
    rest = {key: value for key, value in table.items() if key != "digest"}
    assert table["digest"] == digest_of(rest)


def _refusal(given: dict[str, bytes], *, known: bool = True) -> str:
    with pytest.raises(RefusedError) as caught:
        reduce(declarations(), given, current(), is_ancestor=lambda _: known)
    return str(caught.value)


def test_an_unknown_row_is_refused_by_name() -> None:
    refusal = _refusal(receipts(Made(rows=("gelu.forward.f32.cpu",))))
    assert refusal.startswith("[cpu-avx2-gcc12/ops.json] ")
    assert "unknown; got gelu.forward.f32.cpu" in refusal
    # Known, but not to this lane.
    assert f"unknown; got {STEP}" in _refusal(receipts(Made(rows=(STEP,))))


def test_a_row_of_another_backend_is_refused_by_name() -> None:
    assert f"got {CUDA}" in _refusal(receipts(Made(rows=(CUDA,))))


def test_a_commit_of_another_history_is_refused_by_name() -> None:
    assert f"ancestor of this checkout's; got {'ab' * 20}" in _refusal(
        receipts(*COMPLETE), known=False
    )


def test_a_duplicate_is_refused_by_name() -> None:
    second = {"cpu-avx2-gcc12/ops-2.json": receipt(Made(rows=OPS, worst=1.0))}
    refusal = _refusal(receipts(*COMPLETE) | second)
    # Two files claim one place: the one that lies elsewhere is named, and where the first is.
    assert "a duplicate; got cpu-avx2-gcc12/ops.json, also read from" in refusal
    assert "[cpu-avx2-gcc12/ops-2.json] a receipt lies where" in refusal


def test_a_receipt_that_no_environment_promises_is_refused_by_name() -> None:
    for made in (Made(toolchain="icx26"), Made(lane="exactness"), Made(env_class="cpu-avx512")):
        assert "list it in matrix/environments.toml" in _refusal(receipts(made))


def test_a_folder_of_another_backend_is_refused_by_name() -> None:
    declared = declarations([environment("cuda-sm80", "nvcc13", "ops")])
    made = Made(env_class="cuda", toolchain="sm80-nvcc13", rows=(CUDA,))
    with pytest.raises(RefusedError, match="is class cuda-sm80 of backend cuda"):
        reduce(declared, receipts(made), current(), is_ancestor=lambda _: True)


def test_all_complaints_are_told_together() -> None:
    given = receipts(Made(rows=("gelu.forward.f32.cpu",)), Made(lane="model", rows=("x",)))
    given["cpu-avx2-clang16/ops.json"] = b"{}"
    assert len(_refusal(given).splitlines()) >= 4
