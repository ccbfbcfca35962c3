"""The table becomes pages: SUPPORT.md, the release report, and one page of HTML.

Rendering reads the declarations and the table only, so it needs neither a build nor a device.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from matrix.canonical import Json, read_json
from matrix.declared import BACKEND_NAMES, BACKENDS, Declarations
from matrix.diff import changes
from matrix.todo import held_back
from matrix.view import RECEIPTS, SIGNS, all_rows, required_rows, topic_views

COMMAND = "python -m matrix render"
SUPPORT = "SUPPORT.md"
PAGE = "reports/support.html"
RELEASES = "reports/releases"


@dataclass(frozen=True)
class Release:
    """What a release report needs beside the table.

    Attributes:
        previous: version of the release before; empty where there is none.
        table: its table.
        signoff: reviewer and date, once someone has signed.
    """

    previous: str = ""
    table: Json | None = None
    signoff: Mapping[str, str] = field(default_factory=dict[str, str])


def read_release(root: Path, version: str) -> Release:
    """What ``reports/releases`` holds for a version and of the one before it."""
    folder = root / RELEASES
    earlier = [p for p in folder.glob("*.json") if _ordered(p.stem) < _ordered(version)]
    signoff = folder / f"{version}.toml"
    signed = tomllib.loads(signoff.read_text(encoding="utf-8")) if signoff.exists() else {}
    names = {key: str(value) for key, value in signed.items()}
    if not earlier:
        return Release(signoff=names)
    last = max(earlier, key=lambda path: _ordered(path.stem))
    return Release(last.stem, read_json(last.read_bytes()), names)


def _ordered(version: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(p), "") if p.isdigit() else (-1, p) for p in version.split("."))


def render(
    declared: Declarations, table: Json, release: Release, templates: Path
) -> dict[str, str]:
    """Every page, by its path from the top folder.

    Args:
        declared: the declarations.
        table: as :func:`matrix.reduce.reduce` builds it.
        release: the release before, and who signed this one.
        templates: folder of the templates.

    Raises:
        RefusedError: the table lacks a declared cell.
    """
    context = {
        "command": COMMAND,
        "version": declared.version,
        "table": table,
        "release": declared.release,
        "signs": list(SIGNS.values()),
        "backends": [BACKEND_NAMES[backend] for backend in BACKENDS],
        "topics": topic_views(declared, table),
        "rows": required_rows(declared, table),
        "all_rows": all_rows(table),
        "held": held_back(declared, table),
        "previous": release.previous,
        "transitions": changes(release.table, table) if release.table else (),
        "signoff": {"reviewer": "", "date": "", **release.signoff},
        "receipts": RECEIPTS,
    }
    pages = {
        SUPPORT: "support.md.j2",
        f"{RELEASES}/{declared.version}.md": "release.md.j2",
        PAGE: "support.html.j2",
    }
    environment = jinja_environment(templates)
    return {path: environment.get_template(name).render(context) for path, name in pages.items()}


def jinja_environment(templates: Path) -> jinja2.Environment:
    """What templates are filled in with; a name that is not there is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    environment.filters["css"] = _css
    environment.filters["backend_name"] = BACKEND_NAMES.__getitem__
    return environment


def _cell(text: str) -> str:
    """Text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")


def _css(state: str) -> str:
    return state.replace(" ", "-")
