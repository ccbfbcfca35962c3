"""Claims in prose: where a capability is named, the cell that says what is known of it.

A paragraph of the README, of a guide or of the command line's help that names a family, a storage
format, an optimizer or LoRA is a claim. It carries the id of each cell that it rests on, in
Markdown as ``<!-- cell: families.llama.cpu -->``, in help as ``[cell:training.lora-sft.cpu]``.
Several ids are separated by spaces, ``*`` stands for any part. A cell that is claimed is verified
or transferred, or it was and is stale, which holds back a release and no text;
``<!-- cell: families.gemma.cpu = not measured -->`` says otherwise and has to be right as well.
Code blocks are not prose; decisions, the log, the change log and generated pages are records of
their time.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

MARK = re.compile(r"<!-- cell: ([^=>]+?)(?: = ([a-z ]+?))? -->|\[cell:([^\]=]+?)(?:=([a-z ]+?))?\]")
CLAIMED = frozenset({"verified", "transferred", "stale"})
RECORDS = frozenset({"log.md", "walkthrough.md", "style-debts.md"})
# Topics whose rows have names that prose uses; of the others one.
NAMED_TOPICS = ("families", "frozen-bases", "optimizers")
LORA = ("LoRA", "training.lora-sft")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Claim:
    """A paragraph with the cells that it names.

    Attributes:
        where: file and line.
        cells: id or pattern, and the state that it says; empty where it just claims.
    """

    where: str
    text: str
    cells: tuple[tuple[str, str], ...]


def claim(where: str, text: str) -> Claim:
    """A paragraph as a claim."""
    found: list[tuple[str, str]] = []
    for names, state, names_in_help, state_in_help in MARK.findall(text):
        for name in (names or names_in_help).split():
            found.append((name, state or state_in_help))
    return Claim(where, MARK.sub("", text), tuple(found))


def paragraphs(root: Path) -> Iterator[Claim]:
    """Every paragraph of prose that users read."""
    guides = sorted(p for p in (root / "docs").glob("*.md") if p.name not in RECORDS)
    for path in (root / "README.md", *guides):
        text = _FENCE.sub(lambda m: "\n" * m[0].count("\n"), path.read_text(encoding="utf-8"))
        line = 1
        for block in re.split(r"(\n\s*\n)", text):
            if block.strip():
                yield claim(f"{path.relative_to(root)}:{line}", block)
            line += block.count("\n")
    for path in sorted((root / "src" / "retrograd" / "cli").glob("*.py")):
        for number, text in _help(path):
            yield claim(f"{path.relative_to(root)}:{number}", text)


def _help(path: Path) -> Iterator[tuple[int, str]]:
    """What ``--help`` prints of a command's file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == path.stem:
            yield node.lineno, ast.get_docstring(node) or ""
        if isinstance(node, ast.keyword) and node.arg == "help":
            value = node.value
            if isinstance(value, ast.Constant):
                yield value.lineno, str(value.value)


def terms(cells: Mapping[str, str]) -> dict[str, str]:
    """Words that claim something, with the cell they claim up to the backend.

    Args:
        cells: title of its row by the id of every declared cell.
    """
    found: dict[str, str] = dict([LORA])
    for cell, title in cells.items():
        stem, _, _ = cell.rpartition(".")
        if stem.partition(".")[0] in NAMED_TOPICS and " " not in title:
            found[title] = stem
    return found


def faults(found: Claim, cells: Mapping[str, str], states: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with a paragraph.

    Args:
        found: the paragraph.
        cells: as for :func:`terms`.
        states: state by cell id; empty where there is no table.
    """
    named: set[str] = set()
    for name, said in found.cells:
        hits = [cell for cell in cells if fnmatchcase(cell, name)]
        if not hits:
            yield f"{found.where}: no cell is called {name}"
        named.update(cell.rpartition(".")[0] for cell in hits)
        for cell in hits if states else ():
            state = states.get(cell, "absent")
            if said and state != said:
                yield f"{found.where}: {cell} is {state}, not {said}"
            if not said and state not in CLAIMED:
                yield f"{found.where}: it claims {cell}, which is {state}"
    for word, stem in terms(cells).items():
        # Neither part of a longer name, nor of a path or a file name.
        pattern = rf"(?<![\w./`-]){re.escape(word)}(?![\w/`-]|\.\w)"
        if stem not in named and re.search(pattern, found.text):
            yield f"{found.where}: it names {word} without <!-- cell: {stem}.BACKEND -->"
