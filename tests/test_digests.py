"""What the digests of rows cover, and that they depend on nothing else."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from digest_trees import copy_tree, row_entries
from house import ROOT

from lanes.digests import (
    RowDigests,
    Sources,
    comparator_digest,
    current_digests,
    differing,
    fixture_digests,
    main,
    row_digest,
)
from lanes.lane_rows import lane_row_digests
from native.digests import (
    Compiler,
    ConflictError,
    build_text,
    declared_flags,
    make_rules,
    row_digests,
    written_closure,
)
from native.generate import Row, dispatch
from retrograd.backends import open_device

NEW_ROW = """[[row]]
op = "add"
direction = "forward"
dtype = ["bf16"]
backend = "cpu"
contract = "pinned"
faults = ["skip_last_element"]
"""
Edit = Callable[[str, str, str], set[str]]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def before(tree: Path) -> dict[str, RowDigests]:
    return current_digests(Sources(tree))


@pytest.fixture
def stale(tree: Path, before: dict[str, RowDigests]) -> Edit:
    """Replaces a text once and returns the rows whose digest is another; the file is restored."""

    def edit(name: str, old: str, new: str) -> set[str]:
        path = tree / name
        content = path.read_bytes()
        assert old.encode() in content
        path.write_bytes(content.replace(old.encode(), new.encode(), 1))
        try:
            after = current_digests(Sources(tree))
        finally:
            path.write_bytes(content)
        return {
            row for row in before if row not in after or after[row]["row"] != before[row]["row"]
        }

    return edit


def of_ops(*ops: str) -> set[str]:
    return {row for row, entry in row_entries(ROOT).items() if entry["op"] in ops}


def test_library_carries_the_digests_of_the_checkout() -> None:
    rows = current_digests()
    carried = open_device(threads=1).digests
    assert differing(carried, rows) == []
    assert set(carried) == set(row_entries(ROOT))
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in carried.values())
    assert len(set(carried.values())) == len(carried)


def test_library_that_differs_is_named_row_by_row() -> None:
    rows = current_digests()
    first, second, *_ = sorted(rows)
    library = {row: digests["kernel"] for row, digests in rows.items()}
    library[first] = "0" * 64
    del library[second]
    assert differing(library | {"new.forward.f32.cpu": "1" * 64}, rows) == sorted(
        [first, second, "new.forward.f32.cpu"]
    )


def test_digest_is_that_of_the_sources_and_not_of_the_checkout(
    tree: Path, before: dict[str, RowDigests]
) -> None:
    assert before == current_digests()
    assert current_digests(Sources(ROOT, package=tree / "src" / "retrograd")) == before


def test_line_ends_do_not_count(tmp_path: Path, before: dict[str, RowDigests]) -> None:
    tree = copy_tree(tmp_path / "windows tree")
    for path in tree.rglob("*"):
        if path.suffix in {".cpp", ".h", ".py", ".toml", ".txt"}:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert current_digests(Sources(tree)) == before


def test_compiler_names_the_closure_that_the_text_has(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "a # tree")
    compiler = Compiler(["g++"], declared_flags(tree))
    assert row_digests("cpu", tree, compiler) == row_digests("cpu", ROOT)


def test_flags_of_another_processor_count_and_are_not_used(tree: Path) -> None:
    flags = declared_flags(tree)
    flags["avx2"].append("-mno-such-machine")
    foreign = Compiler(["g++"], flags, frozenset({"-mno-such-machine"}))
    assert row_digests("cpu", tree, foreign) != row_digests("cpu", tree)
    with pytest.raises(ConflictError, match="names no dependencies"):
        row_digests("cpu", tree, Compiler(["g++"], flags))


def test_header_behind_a_condition_stops_the_build(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    path = tree / "native" / "cpu" / "fill.cpp"
    hidden = '#if defined(__AVX2__)\n#include "gemm.h"\n#endif\n'
    path.write_text(path.read_text("utf-8") + hidden, "utf-8")
    with pytest.raises(ConflictError, match=r"fill\.cpp.*outside #if.*native/cpu/gemm\.h"):
        row_digests("cpu", tree, Compiler(["g++"], declared_flags(tree)))


def test_header_that_three_kernels_include_makes_exactly_their_rows_stale(stale: Edit) -> None:
    users = {"attention", "linear_cross_entropy", "rms_norm"}
    for op in users:
        closure = written_closure(ROOT, f"native/cpu/{op}.cpp")
        assert "native/cpu/softmax.h" in closure
    assert stale("native/cpu/softmax.h", "a", "b") == of_ops(*users)


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("native/cpu/matmul.cpp", ("matmul",)),
        ("native/cpu/stream_words.h", ("dropout",)),
        ("native/include/retrograd/ops/adamw.h", ("adamw",)),
        ("src/retrograd/ops/rope.py", ("rope",)),
        ("oracles/ops/swiglu.py", ("swiglu",)),
        ("oracles/pinned/sgd.py", ("sgd",)),
        ("lanes/cases/clip.py", ("clip",)),
    ],
)
def test_file_of_an_op_makes_its_rows_stale(name: str, ops: tuple[str, ...], stale: Edit) -> None:
    assert stale(name, "a", "b") == of_ops(*ops)


@pytest.mark.parametrize(
    "name",
    [
        "native/cpu/backend.cpp",
        "native/cpu/pool.h",
        "native/include/retrograd/abi.h",
        "lanes/comparator.py",
        "lanes/catalogue.py",
        "src/retrograd/runtime/launch.py",
    ],
)
def test_what_every_row_passes_through_makes_all_stale(
    name: str, stale: Edit, before: dict[str, RowDigests]
) -> None:
    assert stale(name, "a", "b") == set(before)


@pytest.mark.parametrize(
    "name",
    [
        "native/digests.py",
        "native/generate.py",
        "native/bindings/module.cpp",
        "lanes/tolerances.py",
        "lanes/__init__.py",
        "src/retrograd/ops/__init__.py",
        "src/retrograd/backends.py",
        "README.md",
    ],
)
def test_what_no_row_stands_on_changes_nothing(name: str, stale: Edit) -> None:
    assert stale(name, "a", "b") == set()


def test_flag_of_the_project_makes_all_stale(stale: Edit, before: dict[str, RowDigests]) -> None:
    assert stale("CMakeLists.txt", '"-O3"', '"-O2"') == set(before)
    assert stale("CMakeLists.txt", "-fno-math-errno", "-ffast-math") == set(before)
    assert stale("CMakeLists.txt", "set(RETRO_AVX2_FLAGS", "set(RETRO_AVX2_FLAGS -mbmi") == set(
        before
    )
    assert stale("CMakeLists.txt", "-Wextra", "-Wshadow") == set()
    assert stale("CMakeLists.txt", "# ", "# so: ") == set()


def test_missing_flags_are_refused(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("set(CMAKE_CXX_STANDARD 17)\n", "utf-8")
    with pytest.raises(ConflictError, match="CMAKE_CXX_FLAGS_RELEASE"):
        declared_flags(tmp_path)


def test_declaration_of_a_row_makes_that_row_stale(stale: Edit) -> None:
    changed = stale("src/retrograd/rows.toml", '["drop_eps"]', '["other"]')
    assert changed == {"rms_norm.forward.f32.cpu"}


def test_new_row_leaves_the_others_alone(stale: Edit) -> None:
    assert stale("src/retrograd/rows.toml", "[[row]]", f"{NEW_ROW}\n[[row]]") == set()


def test_kernels_bound_in_another_order_make_all_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    before = row_digests("cpu")

    def shifted(rows: list[Row]) -> str:
        """The table with each kernel one place further than its id."""
        head, _, kernels = dispatch(rows).partition("kKernels[][2] = {\n")
        first, *others = kernels.splitlines()[:-1]
        return "\n".join([f"{head}kKernels[][2] = {{", *others, first, "};"])

    monkeypatch.setattr("native.digests.dispatch", dispatch)
    assert row_digests("cpu") == before
    monkeypatch.setattr("native.digests.dispatch", shifted)
    after = row_digests("cpu")
    assert [row for row in before if after[row] == before[row]] == []


def test_file_that_does_not_parse_still_counts(stale: Edit) -> None:
    assert stale("oracles/ops/rope.py", "def ", "de( ") == of_ops("rope")


def test_data_that_a_module_names_counts(tree: Path) -> None:
    data = tree / "fixtures" / "captured.npz"
    module = tree / "lanes" / "cases" / "rope.py"
    content = module.read_bytes()
    module.write_bytes(content + b'\nCAPTURED = "fixtures/captured.npz"\n')
    digests: list[dict[str, RowDigests]] = []
    for stored in (b"1\r\n", b"1\n"):
        data.write_bytes(stored)
        digests.append(current_digests(Sources(tree)))
    listed = fixture_digests(Sources(tree))
    data.unlink()
    module.write_bytes(content)
    first, second = digests
    assert {row for row in first if first[row] != second[row]} == of_ops("rope")
    assert listed["fixtures/captured.npz"] == hashlib.sha256(b"1\n").hexdigest()


def test_row_digest_is_the_combination_of_its_parts() -> None:
    rows, comparator = current_digests(), comparator_digest()
    for row_id, digests in rows.items():
        parts = {key: str(value) for key, value in digests.items()}
        assert row_digest(row_id, parts, comparator) == digests["row"]
        assert row_digest(row_id, parts, "0" * 64) != digests["row"]
        for key in ("kernel", "op", "oracle", "cases"):
            assert row_digest(row_id, {**parts, key: "0" * 64}, comparator) != digests["row"]
    a, b = sorted(rows)[:2]
    assert row_digest(a, {k: str(v) for k, v in rows[b].items()}, comparator) != rows[b]["row"]


def test_command_prints_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--library"]) == 0
    printed, declared = json.loads(capsys.readouterr().out), current_digests()
    assert {row: printed[row] for row in declared} == declared
    assert {row: printed[row] for row in printed.keys() - declared.keys()} == lane_row_digests()


def test_dependency_files_are_read_with_their_escapes() -> None:
    text = "a.o: /x/a\\ b.cpp \\\n /x/c\\#.h /x/d$$e.h\nb.o: \\\n f.cpp\n"
    assert make_rules(text) == [["/x/a b.cpp", "/x/c#.h", "/x/d$e.h"], ["f.cpp"]]


def test_probe_names_the_build_without_its_folders() -> None:
    probe = open_device(threads=1).probe()
    assert probe["compiler"] in {"gcc", "clang"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", str(probe["compiler_version"]))
    assert "-ffp-contract=off" in str(probe["flags"])
    flags = {"portable": ["-O3"], "avx2": ["-O3", "-mavx2"], "frame": [], "link": []}
    text = build_text(flags, ["-fplugin=/" + "a/b c/p.so", "-DX=1"])
    assert text == "portable: -O3; avx2: -O3 -mavx2; environment: -fplugin=/p.so -DX=1"
