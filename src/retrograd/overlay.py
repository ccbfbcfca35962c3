"""What ``retrograd verify`` found on this machine: read by admission, rendered by nothing.

One file per environment under the user's data folder (``XDG_DATA_HOME``, else ``~/.local/share``).
It speaks for one machine and one library: a row counts while the library's digest of it is the one
that was measured.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from retrograd.errors import AdmissionError

SCHEMA = 1
STATES = frozenset({"verified", "failed"})


@dataclass(frozen=True)
class Place:
    """Where a kernel runs: backend, environment class, toolchain of the build, and machine."""

    backend: str
    env_class: str
    toolchain: str
    machine: str

    @property
    def environment(self) -> str:
        return f"{self.env_class}-{self.toolchain}"


@dataclass(frozen=True)
class Local:
    """A row on this machine.

    Attributes:
        state: ``verified`` or ``failed``.
        digest: digest of all that stood behind the run.
        kernel: the library's digest of the row; None for rows that only lanes run.
        reason: why it failed.
    """

    state: str
    digest: str
    kernel: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Overlay:
    """Everything found in one place.

    Attributes:
        library: digest of the library's digests.
        started: when it was measured, UTC.
        rows: by id.
    """

    place: Place
    library: str
    started: str
    rows: Mapping[str, Local]


def data_folder() -> Path:
    """The user's data folder of retrograd."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG rules ask readers to ignore a path that is not absolute.
    base = given if given.is_absolute() else Path.home() / ".local" / "share"
    return base / "retrograd"


def path_of(place: Place) -> Path:
    """The file of a place."""
    key = hashlib.sha256(place.machine.encode()).hexdigest()[:8]
    return data_folder() / "overlay" / f"{place.environment}-{key}.json"


def machine_name() -> str:
    """The processor's model as its maker names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def library_digest(digests: Mapping[str, str]) -> str:
    """SHA-256, in hex, over the digests of all rows of a library."""
    text = json.dumps(sorted(digests.items()), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_overlay(place: Place) -> Overlay | None:
    """What was found in this place, or None.

    Raises:
        AdmissionError: the file is damaged; a row that failed may stand in it.
    """
    path = path_of(place)
    if not path.is_file():
        return None
    try:
        found = cast(dict[str, Any], json.loads(path.read_bytes()))
        told = found.pop("self_digest")
        if found["schema"] != SCHEMA or told != _digest(found):
            raise ValueError("its digest is not that of its content")
        rows = {name: Local(**entry) for name, entry in found["rows"].items()}
        if any(row.state not in STATES for row in rows.values()):
            raise ValueError(f"a state is one of {', '.join(sorted(STATES))}")
        overlay = Overlay(Place(**found["place"]), found["library"], found["started"], rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        rule = "the local overlay is what `retrograd verify` wrote"
        remedy = "delete the file, or run `retrograd verify` again"
        raise AdmissionError("overlay", rule, f"{path}: {error}", remedy) from error
    return overlay if overlay.place == place else None


def write_overlay(overlay: Overlay) -> Path:
    """Stores what was found, in place of what an earlier run found there."""
    path = path_of(overlay.place)
    content: dict[str, Any] = {"schema": SCHEMA, **asdict(overlay)}
    content["self_digest"] = _digest(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
