"""The product stamp of a receipt: version, commit, and whether the tree is that of the commit.

In a git checkout git says so. Where git or the repository is absent, ``source-stamp.json`` does: it
is written from a clean checkout by ``python -m lanes.stamp --write``, travels with the sources, and
is checked against every file it lists. It holds ``{"schema": 1, "commit", "files": {path: SHA-256
with LF line ends}, "digest"}``, the last over the canonical JSON of the rest.

A tree is dirty when a tracked file differs or is missing, or when there is a file that is neither
tracked nor ignored. Left out are *results* that no lane reads: writing the first receipt would
otherwise make the tree dirty for the second. They are

- ``reports/receipts/``, which only runs write;
- ``src/retrograd/table.json``, ``SUPPORT.md`` and the other pages that ``lanes/results.py`` lists,
  pure functions of receipts and declarations;
- ``source-stamp.json`` itself.

``lanes/tolerances.toml`` and ``lanes/plans/`` are written by commands as well, but lanes judge and
plan by them: a bound that is not committed must not decide a receipt that counts.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lanes.results import STAMP, is_generated
from native.digests import canonical, text_digest
from retrograd.errors import RetrogradError

ROOT = Path(__file__).resolve().parent.parent
# Where a file that the stamp does not list could change what runs.
_SOURCE_FOLDERS = ("src", "native", "lanes", "oracles", "fixtures", "matrix", "tests", "reports")
_BUILT = frozenset({".so", ".pyc", ".dylib", ".dll", ".o"})
_KEYS = {"schema", "commit", "files", "digest"}
_Json = dict[str, object]
_COMMIT = re.compile(r"[0-9a-f]{40}")


class StampError(RetrogradError):
    """Nothing says which sources these are, or what says so is broken."""


@dataclass(frozen=True)
class Stamp:
    """What a receipt says of the product.

    Attributes:
        version: of the package.
        commit: 40 hex digits.
        changed: paths that differ from the commit, generated ones apart.
        source: ``git`` or ``file``.
    """

    version: str
    commit: str
    changed: tuple[str, ...]
    source: str

    @property
    def dirty(self) -> bool:
        """Whether a receipt of this tree is local and counts for nothing else."""
        return bool(self.changed)

    def receipt(self) -> dict[str, object]:
        """The ``product`` block of a receipt."""
        return {
            "version": self.version,
            "commit": self.commit,
            "dirty": self.dirty,
            "stamp": self.source,
        }


def product_stamp(root: Path = ROOT) -> Stamp:
    """The stamp of a source tree: from git, or from the file that travels with the sources.

    Raises:
        StampError: there is neither, or the file is broken.
    """
    if _is_checkout(root):
        commit = _git(root, "rev-parse", "HEAD").strip()
        return Stamp(_version(root), commit, _changed_in_git(root), "git")
    stamp = _read(root / STAMP)
    return Stamp(_version(root), stamp.commit, _changed_in_files(root, stamp), "file")


def write_stamp(root: Path = ROOT) -> Path:
    """Writes ``source-stamp.json`` for the commit that is checked out.

    Raises:
        StampError: this is no checkout, or it is dirty.
    """
    if not _is_checkout(root):
        raise StampError("stamp", "a stamp is written in a git checkout", root, "clone first")
    stamp = product_stamp(root)
    if stamp.dirty:
        got = ", ".join(stamp.changed[:5])
        raise StampError("stamp", "a stamp describes a commit", got, "commit or remove these")
    files = {name: _content(root / name) for name in _tracked(root)}
    rest = {"schema": 1, "commit": stamp.commit, "files": files}
    path = root / STAMP
    text = json.dumps({**rest, "digest": _digest(rest)}, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _is_checkout(root: Path) -> bool:
    """Whether git is there and ``root`` is the top of a repository with a commit.

    Sources that were unpacked inside another repository must not take that one's commit.
    """
    try:
        top = _git(root, "rev-parse", "--show-toplevel").strip()
        _git(root, "rev-parse", "--verify", "HEAD")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return False
    return Path(top).resolve() == root.resolve()


def _git(root: Path, *arguments: str) -> str:
    # Without optional locks, so that two lanes at once do not meet in the index.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape")


def _changed_in_git(root: Path) -> tuple[str, ...]:
    status = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
    names = (entry[3:] for entry in status.split("\0") if entry)
    # `status` does not look at a file that is marked as unchanged (lower case) or left out (S).
    marks = (entry for entry in _git(root, "ls-files", "-v", "-z").split("\0") if entry)
    hidden = [mark[2:] for mark in marks if mark[0].islower() or mark[0] == "S"]
    return tuple(sorted({n for n in [*names, *hidden] if not is_generated(n)}))


def _tracked(root: Path) -> list[str]:
    names = _git(root, "ls-files", "-z").split("\0")
    return sorted(n for n in names if n and not is_generated(n))


@dataclass(frozen=True)
class _Carried:
    """Contents of a stamp file."""

    commit: str
    files: Mapping[str, str]


def _read(path: Path) -> _Carried:
    remedy = "use a git checkout, or sources that carry the stamp"
    if not path.is_file():
        rule = "git or source-stamp.json says which sources these are"
        raise StampError("stamp", rule, f"neither at {path.parent}", remedy)
    try:
        stamp: object = json.loads(path.read_bytes())
    except ValueError as error:
        raise StampError("stamp", "source-stamp.json is JSON", error, remedy) from error
    if not isinstance(stamp, dict) or cast(_Json, stamp).keys() != _KEYS:
        raise StampError("stamp", "source-stamp.json has its four keys", path, remedy)
    fields = cast(_Json, stamp)
    if fields["schema"] != 1:
        raise StampError("stamp", "source-stamp.json has schema 1", fields["schema"], remedy)
    rest = {key: value for key, value in fields.items() if key != "digest"}
    if fields["digest"] != _digest(rest):
        raise StampError("stamp", "source-stamp.json has its own digest", fields["digest"], remedy)
    commit, files = str(fields["commit"]), fields["files"]
    if not isinstance(files, dict) or not _COMMIT.fullmatch(commit):
        raise StampError("stamp", "source-stamp.json names a commit and files", commit, remedy)
    return _Carried(commit, {k: str(v) for k, v in cast(_Json, files).items()})


def _changed_in_files(root: Path, stamp: _Carried) -> tuple[str, ...]:
    files = stamp.files
    changed = {name for name, digest in files.items() if _content(root / name) != digest}
    for folder in _SOURCE_FOLDERS:
        names = (p.relative_to(root).as_posix() for p in (root / folder).rglob("*") if _counts(p))
        changed |= {name for name in names if name not in files and not is_generated(name)}
    return tuple(sorted(changed))


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix not in _BUILT


def _content(path: Path) -> str:
    """Digest of a tracked file; of the target's name where it is a link; empty where it is gone."""
    if path.is_symlink():
        return hashlib.sha256(str(path.readlink()).encode()).hexdigest()
    return text_digest(path.read_bytes()) if path.is_file() else ""


def _digest(rest: object) -> str:
    return hashlib.sha256(canonical(rest)).hexdigest()


def _version(root: Path) -> str:
    text = (root / "src" / "retrograd" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^VERSION = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise StampError(
            "stamp", "version.py sets VERSION", text, "restore src/retrograd/version.py"
        )
    return found[1]


def main(arguments: Sequence[str]) -> int:
    """Prints the stamp, or writes the file; 2 when neither can be done."""
    parser = argparse.ArgumentParser(prog="python -m lanes.stamp")
    parser.add_argument("--write", action="store_true", help=f"write {STAMP}")
    options = parser.parse_args(arguments)
    try:
        if options.write:
            print(write_stamp())
            return 0
        stamp = product_stamp()
    except StampError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print(json.dumps({**stamp.receipt(), "changed": stamp.changed}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
