"""``python -m matrix``: build the table, render it, compare two, list what is left, release.

0 done · 1 stale, something is left (``--check``), or a release is held back · 2 the inputs are
refused, each by name.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from matrix.canonical import Json, digest_of, read_json
from matrix.declared import Declarations
from matrix.diff import changes
from matrix.errors import Complaint, RefusedError
from matrix.files import dump, read_current, read_receipts, written
from matrix.reduce import Reduction, reduce
from matrix.todo import held_back, tasks
from matrix.topics import read_declarations

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("src/retrograd/table.json")
RECEIPTS = Path("reports/receipts")
TEMPLATES = Path("reports/templates")
STALE, HELD_BACK, INVALID = 1, 1, 2

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return INVALID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="top folder of the checkout")
    commands = parser.add_subparsers(required=True)

    def add(name: str, command: Command, about: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=about, description=about)
        found.set_defaults(command=command)
        return found

    building = add("reduce", _reduce, "declarations and receipts become the table")
    building.add_argument(
        "--digests", type=Path, help="this checkout's digests; default: ask lanes"
    )
    building.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    rendering = add("render", _render, "the table becomes SUPPORT.md, the release report and HTML")
    rendering.add_argument("--snapshot", action="store_true", help="keep it for the next release")
    rendering.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    comparing = add("diff", _diff, "print the states that differ between two tables, and why")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    listing = add("todo", _todo, "list what has to be run before a release, where, and how")
    listing.add_argument("--check", action="store_true", help="exit 1 while anything is held back")
    releasing = add("release", _release, "evaluate the criteria of a release, render its report")
    releasing.add_argument("--digests", type=Path, help="as for reduce")
    walking = add("walkthrough", _walkthrough, "from a cell to its signature, on a page")
    walking.add_argument("--cell", default="optimizers.adamw.cpu", help="the cell to follow")
    walking.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    return parser


def _reduction(options: argparse.Namespace, declared: Declarations) -> Reduction:
    root: Path = options.root
    current = read_current(options.digests, root)
    receipts = read_receipts(root / RECEIPTS)
    return reduce(declared, receipts, current, is_ancestor=_ancestry(root))


def _reduce(options: argparse.Namespace) -> int:
    root: Path = options.root
    reduction = _reduction(options, read_declarations(root))
    for path in reduction.local:
        print(f"{path}: local, from an unclean tree; the table ignores it")
    return _settle(root, {str(TABLE): dump(reduction.table)}, check=options.check)


def _render(options: argparse.Namespace) -> int:
    from matrix.render import RELEASES, read_release, render

    root: Path = options.root
    declared = read_declarations(root)
    table = _read_table(root / TABLE)
    pages = render(declared, table, read_release(root, declared.version), root / TEMPLATES)
    if options.snapshot:
        pages[f"{RELEASES}/{declared.version}.json"] = dump(table)
    return _settle(root, pages, check=options.check)


def _diff(options: argparse.Namespace) -> int:
    found = changes(_read_table(options.old), _read_table(options.new))
    for change in found:
        print(change)
    print(f"{len(found)} states differ")
    return 0


def _todo(options: argparse.Namespace) -> int:
    root: Path = options.root
    declared = read_declarations(root)
    table = _read_table(root / TABLE)
    for task in tasks(declared, table):
        print(task)
    return _verdict(declared, table, check=options.check)


def _release(options: argparse.Namespace) -> int:
    from matrix.release import reasons, signature_fault, uncommitted_files
    from matrix.render import RELEASES, read_release, render

    root: Path = options.root
    declared = read_declarations(root)
    table = _reduction(options, declared).table
    release = read_release(root, declared.version)
    reports = (f"{RELEASES}/{declared.version}.md",)
    held = list(reasons(declared, table, uncommitted_files(root, but=reports), release.signoff))
    reviewer = release.signoff.get("reviewer", "")
    fault = signature_fault(root, declared.version, table["digest"], reviewer)
    held += [fault] if fault else []
    pages = render(declared, table, release, root / TEMPLATES)
    texts = {str(TABLE): dump(table), **pages}
    # A report of another table than the committed one would ask for a signature on neither.
    stale = [p for p in texts if p not in reports and not written(root / p, texts[p])]
    held += [f"[{path}]: it is not what the receipts say; reduce and render" for path in stale]
    if not stale:
        _settle(root, {path: texts[path] for path in reports}, check=False)
    for reason in held:
        print(reason)
    print(f"release {declared.version}, table {table['digest']}: held back by {len(held)}")
    return HELD_BACK if held else 0


def _walkthrough(options: argparse.Namespace) -> int:
    from matrix.walkthrough import PAGE, page, transcripts

    root: Path = options.root
    declared = read_declarations(root)
    table = _read_table(root / TABLE)
    kept = transcripts(root / PAGE) if options.check else None
    text = page(root, declared, table, options.cell, kept)
    return _settle(root, {PAGE: text}, check=options.check)


def _verdict(declared: Declarations, table: Json, *, check: bool) -> int:
    held = held_back(declared, table)
    claimed = ", ".join(declared.release.claimed)
    print(f"{len(held)} rows hold back a release for {claimed}")
    return STALE if check and held else 0


def _read_table(path: Path) -> Json:
    if not path.exists():
        remedy = "run `python -m matrix reduce`"
        raise RefusedError([Complaint(str(path), "there is a table", "no file", remedy)])
    table = read_json(path.read_bytes())
    rest = {key: value for key, value in table.items() if key != "digest"}
    if table.get("digest") != digest_of(rest):
        rule, remedy = "a table carries its own digest", "run `python -m matrix reduce`"
        raise RefusedError([Complaint(str(path), rule, str(table.get("digest")), remedy)])
    return table


def _settle(root: Path, pages: dict[str, str], *, check: bool) -> int:
    stale = [path for path, text in pages.items() if not written(root / path, text)]
    for path in stale:
        if check:
            command = "walkthrough" if path.startswith("docs/") else "reduce, then render"
            print(f"{path}: stale; run python -m matrix {command}")
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(pages[path], encoding="utf-8")
        print(f"{path}: written")
    return STALE if check and stale else 0


def _ancestry(root: Path) -> Callable[[str], bool]:
    """Whether a commit belongs to the history of this checkout."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        print("commits: not checked, because this tree has no git history", file=sys.stderr)
        return lambda _: True
    known: dict[str, bool] = {}

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        command = [git, "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    is_shallow = ask("rev-parse", "--is-shallow-repository").stdout.strip() == "true"

    def is_ancestor(commit: str) -> bool:
        if commit not in known:
            known[commit] = ask("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0
            if is_shallow and ask("cat-file", "-e", commit).returncode:
                print(f"commit {commit}: not checked, the history ends before it", file=sys.stderr)
                known[commit] = True
        return known[commit]

    return is_ancestor


if __name__ == "__main__":
    sys.exit(main())
