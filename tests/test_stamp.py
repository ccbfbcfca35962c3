"""The product stamp: from git, from the file that travels with the sources, or refused."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lanes.stamp import STAMP, StampError, is_generated, main, product_stamp, write_stamp

FILES = {
    "src/retrograd/version.py": '"""Version."""\n\nVERSION = "1.2.3"\n',
    "native/cpu/add.cpp": "// add\n",
    "lanes/tolerances.toml": "# bounds\n",
    "README.md": "# read\n",
    "reports/templates/support.md.j2": "# {{ title }}\n",
    ".gitignore": "*.so\nsource-stamp.json\n",
}


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        write(root / name, text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.fixture
def carried(checkout: Path, tmp_path: Path) -> Path:
    """The same sources without git, with their stamp."""
    write_stamp(checkout)
    return Path(
        shutil.copytree(checkout, tmp_path / "carried", ignore=shutil.ignore_patterns(".git"))
    )


def test_clean_checkout(checkout: Path) -> None:
    stamp = product_stamp(checkout)
    assert stamp.receipt() == {
        "version": "1.2.3",
        "commit": git(checkout, "rev-parse", "HEAD"),
        "dirty": False,
        "stamp": "git",
    }


@pytest.mark.parametrize(
    "name",
    [
        "reports/receipts/cpu-avx2-gcc12/ops.json",
        "reports/releases/1.2.3.md",
        "reports/support.html",
        "SUPPORT.md",
        "src/retrograd/table.json",
        "src/retrograd/library.so",
    ],
)
def test_results_and_build_products_leave_a_tree_clean(checkout: Path, name: str) -> None:
    write(checkout / name, "written by a run\n")
    assert not product_stamp(checkout).dirty


@pytest.mark.parametrize(
    "name",
    [
        "native/cpu/add.cpp",
        "native/cpu/new é.h",
        "lanes/tolerances.toml",
        "reports/templates/support.md.j2",
        "reports/allowed_signers",
    ],
)
def test_changed_or_new_file_makes_a_tree_dirty(checkout: Path, carried: Path, name: str) -> None:
    for root in (checkout, carried):
        write(root / name, "changed\n")
    assert product_stamp(checkout).changed == (name,)
    assert product_stamp(carried).changed == (name,)


def test_missing_file_makes_a_tree_dirty(checkout: Path, carried: Path) -> None:
    for root in (checkout, carried):
        (root / "README.md").unlink()
        assert product_stamp(root).changed == ("README.md",)


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_file_that_git_was_told_to_overlook_makes_a_tree_dirty(checkout: Path, mark: str) -> None:
    git(checkout, "update-index", mark, "native/cpu/add.cpp")
    write(checkout / "native/cpu/add.cpp", "changed\n")
    assert git(checkout, "status", "--porcelain") == ""
    assert product_stamp(checkout).changed == ("native/cpu/add.cpp",)


def test_sources_without_git_carry_their_stamp(checkout: Path, carried: Path) -> None:
    stamp, origin = product_stamp(carried), product_stamp(checkout)
    assert (stamp.commit, stamp.dirty, stamp.source) == (origin.commit, False, "file")
    readme = carried / "README.md"
    readme.write_bytes(readme.read_bytes().replace(b"\n", b"\r\n"))
    assert not product_stamp(carried).dirty


def test_sources_inside_another_repository_do_not_take_its_commit(
    checkout: Path, carried: Path
) -> None:
    inside = Path(shutil.copytree(carried, checkout / "vendored"))
    assert product_stamp(inside).source == "file"
    (inside / STAMP).unlink()
    with pytest.raises(StampError, match=r"git or source-stamp.json says which"):
        product_stamp(inside)


def test_stamp_is_read_where_git_is_not_installed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stamp(checkout)
    monkeypatch.setenv("PATH", "")
    assert product_stamp(checkout).source == "file"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"schema": 1', '"schema": 2', "schema 1"),
        ('"commit": "', '"commit": "0', "its own digest"),
        ('"README.md": "', '"README.txt": "', "its own digest"),
        ('"files"', '"paths"', "four keys"),
        ("{", "[", "is JSON"),
    ],
)
def test_broken_stamp_is_refused(carried: Path, old: str, new: str, message: str) -> None:
    path = carried / STAMP
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(StampError, match=message):
        product_stamp(carried)


def test_stamp_of_a_dirty_tree_is_not_written(checkout: Path, carried: Path) -> None:
    write(checkout / "README.md", "changed\n")
    with pytest.raises(StampError, match=r"describes a commit; got README\.md"):
        write_stamp(checkout)
    with pytest.raises(StampError, match="in a git checkout"):
        write_stamp(carried)


def test_stamp_lists_every_tracked_file_that_is_no_result(carried: Path) -> None:
    stamp = json.loads((carried / STAMP).read_text("utf-8"))
    assert set(stamp["files"]) == set(FILES)
    assert [name for name in stamp["files"] if is_generated(name)] == []


def test_command_prints_the_stamp(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"version", "commit", "dirty", "stamp", "changed"}
    assert printed["dirty"] == bool(printed["changed"])
