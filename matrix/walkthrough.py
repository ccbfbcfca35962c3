"""From a cell to its signature, on a page that nobody types: ``python -m matrix walkthrough``.

What the page quotes of tables and receipts is read from them; what it shows of commands is what
they printed when the page was made. ``--check`` reads the quotations again and keeps the printed
parts, so that it needs neither a build nor a device.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matrix.canonical import Json, canonical, read_json
from matrix.declared import BACKENDS, Cell, Declarations
from matrix.errors import Complaint, RefusedError
from matrix.release import NAMESPACE, ssh_keygen
from matrix.render import SUPPORT, jinja_environment
from matrix.view import RECEIPTS, SIGNS, CellView, topic_views

PAGE = "docs/walkthrough.md"
TEMPLATE = "walkthrough.md.j2"
REVIEWER = "reviewer@example.org"
RERUN = 3
_RUN = re.compile(r"<!-- run: (\w+) -->\n```console\n(.*?)\n```\n", re.DOTALL)

Transcripts = Mapping[str, str]


@dataclass(frozen=True)
class Trail:
    """What a cell leads to.

    Attributes:
        row: of the rows that it needs, the one that uses most of its bound, or the first.
        lane: the lane that shows the row.
        path: its receipt, relative to the folder of receipts.
        subject: the digest at which the row was run.
        is_current: whether that is the row's digest in this checkout.
        case: the row's case with the largest distance.
    """

    row: str
    lane: str
    path: str
    predicate: Json
    subject: str
    is_current: bool
    case: Json


def page(
    root: Path, declared: Declarations, table: Json, cell_id: str, kept: Transcripts | None
) -> str:
    """The text of the page.

    Args:
        root: top folder of the checkout.
        declared: the declarations.
        table: the table.
        cell_id: the cell to follow.
        kept: what commands have printed, by name; None runs them.

    Raises:
        RefusedError: there is no such cell, or this machine cannot run what the page shows.
    """
    cell, view = _cell(declared, table, cell_id)
    trail = _trail(root, table, cell, view)
    printed = kept if kept is not None else _run(root, table["digest"], trail)
    context: dict[str, Any] = {
        "cell": view,
        "line": _support_line(root, view.title),
        "digest": table["digest"],
        "wrong_digest": _altered(table["digest"]),
        "trail": trail,
        "case": canonical(trail.case).decode() if trail else "",
        "receipts": RECEIPTS,
        "rerun": RERUN,
        "run": printed,
        "version": declared.version,
        "sign": SIGNS,
    }
    environment = jinja_environment(root / "reports" / "templates")
    return environment.get_template(TEMPLATE).render(context)


def transcripts(path: Path) -> Transcripts:
    """What commands printed when a page was made; none where there is no page."""
    if not path.exists():
        return _Missing()
    return _Missing(_RUN.findall(path.read_text(encoding="utf-8")))


class _Missing(dict[str, str]):
    """Transcripts by name; one that is not there is empty, so that a check finds the page stale."""

    def __missing__(self, key: str) -> str:
        return ""


def _cell(declared: Declarations, table: Json, cell_id: str) -> tuple[Cell, CellView]:
    views = {
        view.id: view
        for topic in topic_views(declared, table)
        for row in topic.rows
        for view in row.cells
    }
    for _, cell in declared.cells:
        if cell.id == cell_id:
            return cell, views[cell_id]
    remedy = f"name one of the {len(views)} cells of {SUPPORT}"
    raise RefusedError([Complaint("walkthrough", "the cell is declared", cell_id, remedy)])


def _trail(root: Path, table: Json, cell: Cell, view: CellView) -> Trail | None:
    """Where the cell leads; None where no receipt shows any of its rows."""
    shown = [name for name, _, _ in (view.closest.partition(":"),) if name in cell.row_ids]
    for row in [*shown, *cell.row_ids]:
        entry: Json = table["kernel_rows"].get(row) or table["lane_rows"].get(row) or {}
        states: Mapping[str, Json] = entry.get("states", {})
        for state in states.values():
            if state["receipt"]:
                return _followed(root, table, row, state["receipt"])
    return None


def _followed(root: Path, table: Json, row: str, path: str) -> Trail:
    statement: Json = read_json((root / RECEIPTS / path).read_bytes())
    predicate: Json = statement["predicate"]
    cases = [case for case in predicate["cases"] if case["row"] == row]
    case = max(cases, key=_distance)
    subjects = {entry["name"]: entry["digest"]["sha256"] for entry in statement["subject"]}
    lane = table["receipts"][path]["lane"]
    now = (table["kernel_rows"].get(row) or table["lane_rows"][row])["digest"]
    return Trail(row, lane, path, predicate, subjects[row], subjects[row] == now, case)


def _distance(case: Json) -> float:
    errors: Mapping[str, float | None] = case["errors"] or {}
    return errors.get("max_ulp") or 0.0


def _support_line(root: Path, title: str) -> str:
    path = root / SUPPORT
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [line for line in lines if line.startswith(f"| {title} |")]
    if not found:
        rule, remedy = f"{SUPPORT} has a line for the cell", "run `python -m matrix render`"
        raise RefusedError([Complaint(SUPPORT, rule, f"none for {title}", remedy)])
    # Of the columns only the first is followed; the others are as wide again.
    return " | ".join(found[0].split(" | ")[: 1 + BACKENDS.index("cpu") + 1])


def _altered(digest: str) -> str:
    """The digest with its last digit replaced."""
    return digest[:-1] + ("0" if digest[-1] != "0" else "1")


def _run(root: Path, digest: str, trail: Trail | None) -> Transcripts:
    printed: dict[str, str] = {}
    if trail:
        path = f"{RECEIPTS}/{trail.path}"
        verify = f"python -m lanes verify {path}"
        printed["digests"] = _shell(root, [f"python -m lanes.digests | grep '^{trail.row} '"])
        printed["verify"] = _shell(root, [verify])
        printed["rerun"] = _shell(root, [f"{verify} --rerun {RERUN}"])
    ssh_keygen()
    signers = f"""printf '{REVIEWER} namespaces="{NAMESPACE}" %s\\n' "$(cat key.pub)" > signers"""
    check = f"ssh-keygen -Y verify -n {NAMESPACE} -f signers -I {REVIEWER} -s table.sig"
    with TemporaryDirectory(prefix="walkthrough-") as folder:
        commands = [
            f"ssh-keygen -q -t ed25519 -N '' -C {REVIEWER} -f key",
            signers,
            f"printf %s {digest} | ssh-keygen -Y sign -n {NAMESPACE} -f key > table.sig",
            f"printf %s {digest} | {check}",
            f"printf %s {_altered(digest)} | {check}",
        ]
        printed["signature"] = _shell(Path(folder), commands)
    return printed


def _shell(folder: Path, commands: Sequence[str]) -> str:
    """The commands with what they print and how they end."""
    lines: list[str] = []
    here = Path(sys.executable).parent
    # The interpreter that runs this is `python`, wherever it lies.
    environment = {**os.environ, "PATH": os.pathsep.join([str(here), os.environ.get("PATH", "")])}
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        text = done.stdout.replace(f"{folder}/", "").rstrip()
        lines += [f"$ {command}", *([text] if text else [])]
        lines += [f"(exit {done.returncode})"] if done.returncode else []
    return "\n".join(lines)
