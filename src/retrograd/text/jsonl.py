"""Lines of a data file, with their numbers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from retrograd.errors import DataError

_SHOWN = 20
_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Row:
    """One JSON object of a file.

    Attributes:
        line: its line, from 1.
        values: its keys and values.
    """

    line: int
    values: Mapping[str, object]


class BadLines:
    """Collects what is wrong with a file, to be told in one error."""

    def __init__(self, path: Path) -> None:
        """Start with no bad line of ``path``."""
        self.path = path
        self._reasons: dict[int, str] = {}

    def add(self, line: int, reason: str) -> None:
        """Note the first reason for which a line cannot be used."""
        self._reasons.setdefault(line, " ".join(reason.split()))

    def raise_if_any(self) -> None:
        """Report all lines noted, the first ones in words and the rest by count.

        Raises:
            DataError: at least one line was noted.
        """
        if not self._reasons:
            return
        lines = sorted(self._reasons.items())
        shown = [f"{self.path}:{line}: {reason}" for line, reason in lines[:_SHOWN]]
        if len(lines) > _SHOWN:
            shown.append(f"and {len(lines) - _SHOWN} more")
        count = f"{len(lines)} bad line{'s' * (len(lines) > 1)}"
        listing = "".join(f"\n  {entry}" for entry in shown)
        raise DataError(
            "data", "every line must be usable", f"{count}:{listing}\n", "correct or remove them"
        )


def decode_text(path: Path) -> str:
    """The file as text with plain line ends and without a byte-order mark.

    Raises:
        DataError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        got = f"{path}: {error.strerror or error}"
        raise DataError("data", "the file must be readable", got, "check the path") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("data", "the file must be UTF-8", f"{path} in UTF-16", "save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _report_bytes(path, data)
        raise
    return text.replace("\r\n", "\n")


def _report_bytes(path: Path, data: bytes) -> None:
    bad = BadLines(path)
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            bad.add(
                number, f"text must be UTF-8; got byte 0x{byte:02X} at column {error.start + 1}"
            )
    bad.raise_if_any()


def is_json_lines(path: Path, text: str) -> bool:
    """Whether a file holds JSON lines: its name says so, or it begins with an object."""
    if path.suffix.lower() in _SUFFIXES:
        return True
    first = next((line for line in text.split("\n") if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def read_rows(text: str, bad: BadLines) -> list[Row]:
    """All objects of a file; a line that holds none is noted as bad. Blank lines do not count."""
    rows: list[Row] = []
    # Only "\n" ends a line: JSON text may hold the other line separators of Unicode.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            bad.add(number, f"a line must be JSON; got {error.msg} at column {error.colno}")
            continue
        except (ValueError, RecursionError) as error:
            bad.add(number, f"a line must be JSON; got {type(error).__name__}")
            continue
        if isinstance(value, dict):
            rows.append(Row(number, cast("dict[str, object]", value)))
        else:
            bad.add(number, f"a line must be a JSON object; got {type(value).__name__}")
    return rows
