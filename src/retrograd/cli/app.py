"""The ``retrograd`` command: its subcommands and its exit codes.

0 done · 2 a mistake in what was asked for · 1 a fault of ours · 130 ended by Ctrl-C, or 128 + n by
another signal n.
"""

import os
import sys
from types import TracebackType
from typing import Annotated

import typer

from retrograd.cli.capabilities import capabilities
from retrograd.cli.generate import generate
from retrograd.cli.inspect import inspect
from retrograd.cli.preflight import preflight
from retrograd.cli.train import train
from retrograd.cli.verify import verify
from retrograd.errors import RetrogradError
from retrograd.version import VERSION

EXIT_FAULT = 1

app = typer.Typer(
    name="retrograd",
    help="Fine-tunes GGUF language models with its own native kernels and writes GGUF back.",
    no_args_is_help=True,
    add_completion=False,
    # Plain help: the decorated one takes longer to import than all commands together.
    rich_markup_mode=None,
)
for command in (inspect, preflight, train, generate, capabilities, verify):
    app.command()(command)


def _print_version(value: bool) -> None:  # noqa: FBT001 — typer calls it with the flag's value
    if value:
        print(f"retrograd {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: FBT002 — a flag of the command line
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Fine-tunes GGUF language models with its own native kernels and writes GGUF back."""
    del version


def main() -> None:
    """Run the command line of this process and exit."""
    sys.excepthook = report_fault
    # A terminal that cannot show a character is no reason to lose an answer or a run.
    if sys.stdout is sys.__stdout__ and sys.__stdout__ is not None:
        sys.__stdout__.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line.

    Returns:
        The exit code. A fault of ours is raised, for :func:`report_fault` to tell.
    """
    try:
        # Ends in SystemExit, Ctrl-C and mistakes in the arguments included.
        typer.main.get_command(app).main(arguments, prog_name="retrograd")
    except RetrogradError as error:
        if error.exit_code == EXIT_FAULT and _wants_traceback():
            raise
        print(error, file=sys.stderr)
        return error.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else EXIT_FAULT
    return 0


def report_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Tell a fault of ours in a few lines; the traceback only with RETRO_TRACEBACK=1."""
    if _wants_traceback():
        sys.__excepthook__(kind, error, trace)
        return
    where = ""
    while trace is not None:
        code, line, trace = trace.tb_frame.f_code, trace.tb_lineno, trace.tb_next
        where = f" at {os.path.basename(code.co_filename)}:{line}"
    print(
        f"[retrograd] this is a fault of retrograd {VERSION} and not yours;"
        f" got {kind.__name__}{where}: {error};"
        " please report it with the command you ran (RETRO_TRACEBACK=1 shows the traceback)",
        file=sys.stderr,
    )


def _wants_traceback() -> bool:
    return os.environ.get("RETRO_TRACEBACK") == "1"
