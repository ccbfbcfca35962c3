"""House rules that no linter knows. Each failure names the file, the line and the rule."""

import re
import tomllib
from pathlib import Path

from house import CODE, ROOT, TEXT, dotted_names, files, prose, relative

SOFT_LINES, HARD_LINES = 400, 600
# Files over the soft limit, each with its reason.
LONG_FILES = {
    "src/retrograd/config/options.py": "the run document's tables, read side by side",
    "src/retrograd/train/trainer.py": "one public class; its docstrings are the API's reference",
}

MODULE_NAMES = frozenset({"utils", "helpers", "common", "misc", "manager", "engine", "core"})
WORDS = {
    r"\bfast\b": "say how long it takes, or name the session in backquotes",
    r"\b(un)?supported\b": "say which state the cell has: verified, refused, ...",
    r"\bshould work\b": "say what was tried, or that it was not measured",
    r"\bn/a\b": "say what is missing",
    r"\b(todo|fixme|xxx)\b": "do it, or write down the decision not to",
}
READ_BY_USERS = ("src", "native", "docs", "README.md", "CHANGELOG.md", "CMakeLists.txt")
# Paths of one machine, and hosts that only a package client has to know.
PLACES = re.compile(
    r"(?<![\w./:-])/(home|root|work|opt|mnt|srv|Users|tmp)/\w"
    r"|\b(pypi|pythonhosted|npmjs|crates|conda|anaconda)\.(org|io|com)\b"
)
SKIPS = re.compile(r"^pytest\.(skip|xfail|importorskip|mark\.(skip|skipif|xfail))\b")

# Sources of the CPU backend that hold no kernel.
FRAME = frozenset({"backend", "pool"})
# Rows that exist for their oracle lane only: the functions of math.h, which other kernels inline.
KERNEL_ONLY = frozenset({"exp", "log"})


def _rows() -> list[dict[str, object]]:
    text = (ROOT / "src" / "retrograd" / "rows.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["row"]


def _ops() -> set[str]:
    return {str(row["op"]) for row in _rows()}


def _stems(folder: Path, pattern: str, but: frozenset[str] = frozenset()) -> set[str]:
    return {path.stem for path in folder.glob(pattern)} - but


def test_there_is_something_to_look_at() -> None:
    assert len(files(CODE)) > 100
    assert len(_rows()) > 20


def test_files_stay_short() -> None:
    counts = {relative(p): len(p.read_text(encoding="utf-8").splitlines()) for p in files(CODE)}
    too_long = {name: n for name, n in counts.items() if n > HARD_LINES}
    assert too_long == {}, f"over {HARD_LINES} lines"
    long = {name: n for name, n in counts.items() if n > SOFT_LINES and name not in LONG_FILES}
    assert long == {}, f"over {SOFT_LINES} lines without a reason in LONG_FILES"
    stale = {name for name in LONG_FILES if counts.get(name, 0) <= SOFT_LINES}
    assert stale == set(), "no longer over the soft limit: remove it from LONG_FILES"


def test_module_names_say_something() -> None:
    names = {relative(p): {p.stem, *p.relative_to(ROOT).parts} for p in files(CODE)}
    named = [name for name, parts in names.items() if parts & MODULE_NAMES]
    assert named == []


def test_prose_avoids_words_that_claim_without_evidence() -> None:
    patterns = {re.compile(word, re.IGNORECASE): instead for word, instead in WORDS.items()}
    found = [
        f"{relative(path)}:{number}: {line.strip()!r}: {instead}"
        for path in files(TEXT)
        if path.relative_to(ROOT).parts[0] in READ_BY_USERS
        for number, line in prose(path)
        for pattern, instead in patterns.items()
        if pattern.search(line)
    ]
    assert found == []


def test_no_file_names_one_machine_or_a_registry() -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()!r}"
        for path in files(TEXT)
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PLACES.search(line)
    ]
    assert found == []


def test_nothing_is_skipped_or_expected_to_fail() -> None:
    found = [
        f"{relative(path)}:{number}: {name}"
        for path in files(frozenset({".py"}))
        for number, name in dotted_names(path)
        if SKIPS.match(name)
    ]
    assert found == []


def test_kernels_begin_with_their_contract() -> None:
    for op in sorted(_ops()):
        path = ROOT / "native" / "cpu" / f"{op}.cpp"
        lines = path.read_text(encoding="utf-8").splitlines()
        header = "\n".join(lines[: next(i for i, x in enumerate(lines) if x[:2] != "//")])
        assert header.startswith(f"// {op}"), f"{relative(path)}: the first line names the op"
        assert "Contract:" in header, f"{relative(path)}: the header states the contract"


def test_every_op_has_one_file_of_its_name_in_every_folder() -> None:
    ops = _ops()
    native = ROOT / "native"
    assert _stems(native / "cpu", "*.cpp", FRAME) == ops
    assert _stems(native / "include" / "retrograd" / "ops", "*.h") == ops
    modules = _stems(ROOT / "src" / "retrograd" / "ops", "*.py", frozenset({"__init__", "op"}))
    assert modules == ops - KERNEL_ONLY
    assert ops - _stems(ROOT / "oracles" / "ops", "*.py") == set()


def test_every_format_has_one_file_of_its_name_in_every_folder() -> None:
    frame = frozenset({"__init__", "format"})
    formats = _stems(ROOT / "src" / "retrograd" / "formats", "*.py", frame)
    headers = _stems(ROOT / "native" / "include" / "retrograd" / "formats", "*.h")
    assert formats - headers == set()
    assert formats - _stems(ROOT / "oracles" / "formats", "*.py") == set()


def test_every_row_plants_a_fault_and_names_its_contract() -> None:
    for row in _rows():
        assert row["contract"] in {"pinned", "bounded"}, row
        assert row["faults"], row
        assert "state" not in row, row
        assert "symbol" not in row, row
