"""``python -m tests.collecting (-m MODULE | FILE) ARGUMENTS``: a program that may run any row.

What a test starts as a process meets admission as a user does; this is for the tests that are about
something else.
"""

import runpy
import sys

from retrograd.admission import collecting_evidence

COMMAND = (sys.executable, "-m", "tests.collecting")


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
