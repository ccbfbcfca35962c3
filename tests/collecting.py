"""``python -m tests.collecting (-m MODULE | FILE) ARGUMENTS``: a program that may run any row.

What a test starts as a process meets admission as a user does; this is for the tests that are about
something else. Processes that such a program starts itself read :func:`local_evidence`.
"""

import os
import runpy
import sys
from pathlib import Path

from retrograd.admission import collecting_evidence, place_of
from retrograd.backends import open_device
from retrograd.overlay import Local, Overlay, library_digest, path_of, write_overlay
from retrograd.table import TableRow, packaged

COMMAND = (sys.executable, "-m", "tests.collecting")


def local_evidence(folder: Path) -> dict[str, str]:
    """The environment of a process on a machine where every kernel row was found to hold."""
    device = open_device(threads=1)
    rows = {
        name: Local("verified", packaged().rows.get(name, TableRow(name, {})).digest or "", digest)
        for name, digest in device.digests.items()
    }
    place = place_of(device)
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(folder)
    try:
        write_overlay(Overlay(place, library_digest(device.digests), "2026-01-01T00:00:00Z", rows))
        assert path_of(place).is_relative_to(folder)
        return dict(os.environ)
    finally:
        del os.environ["XDG_DATA_HOME"]
        os.environ |= {} if before is None else {"XDG_DATA_HOME": before}


def main(arguments: list[str]) -> None:
    with collecting_evidence():
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
