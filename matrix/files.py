"""What the table is read from and how it is written."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from matrix.canonical import Json, canonical, read_json
from matrix.errors import Complaint, RefusedError
from matrix.findings import Current

# What reading JSON of another shape raises.
SHAPE = (KeyError, TypeError, AttributeError)
DIGESTS = ("-m", "lanes.digests", "--json")


def read_receipts(folder: Path) -> dict[str, bytes]:
    """Content of every receipt, by path relative to the folder."""
    paths = sorted(folder.glob("*/*.json"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read_current(path: Path | None, root: Path) -> Current:
    """The digests of this checkout: ``{row id: {part: sha256, "row": the row's own}}``.

    Args:
        path: a file that holds them; None asks ``python -m lanes.digests --json``.
        root: the top folder of the checkout.

    Raises:
        RefusedError: there is no such file, the command fails, or what it says has another shape.
    """
    where = str(path) if path else f"python {' '.join(DIGESTS)}"
    remedy = f"run `python {' '.join(DIGESTS)}`"
    try:
        text = path.read_bytes() if path else _ask(root)
        found: Mapping[str, Mapping[str, str]] = read_json(text)
        digests = {row: entry["row"] for row, entry in found.items()}
        parts = {
            row: {name: value for name, value in entry.items() if name != "row"}
            for row, entry in found.items()
        }
    except (OSError, ValueError, *SHAPE, subprocess.CalledProcessError) as error:
        rule = "this checkout's digests can be read"
        raise RefusedError([Complaint(where, rule, repr(error), remedy)]) from error
    return Current(digests, parts)


def _ask(root: Path) -> bytes:
    command = [sys.executable, *DIGESTS]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout


def dump(table: Json) -> str:
    """The table as text: one row or cell a line, so that a change can be read as lines."""
    lines = [
        f"{json.dumps(name)}:{_section(cast(Json, value))}"
        if isinstance(value, dict)
        else f"{json.dumps(name)}:{json.dumps(value)}"
        for name, value in sorted(table.items())
    ]
    return "{" + ",\n".join(lines) + "}\n"


def _section(entries: Json) -> str:
    lines = [f"{json.dumps(key)}:{canonical(entries[key]).decode()}" for key in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"


def written(path: Path, text: str) -> bool:
    """Whether the file already holds the text."""
    return path.exists() and path.read_bytes() == text.encode()
