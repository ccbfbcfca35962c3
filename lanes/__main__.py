"""``python -m lanes``: run lanes, write their plans, merge and verify receipts.

0 verified · 1 falsified, or a check finds something stale · 2 not verified. A run whose planned
cases did not all end is never 0, whatever the reason.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from retrograd.errors import RetrogradError

NOT_VERIFIED = 2
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, passed = _split(given)
    options = _parser().parse_args(own)
    options.pytest = tuple(passed)
    try:
        return options.command(options)
    except (RetrogradError, OSError) as error:
        # Exit 1 is a lane's verdict; a machine that cannot do its part has not verified anything.
        print(error, file=sys.stderr)
        return NOT_VERIFIED


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in given:
        return given, []
    at = given.index("--")
    return given[:at], given[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lanes", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, about: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=about, description=about)
        found.set_defaults(command=command)
        return found

    running = add("run", _run, "run a lane, or `fast` for all; `-- ARGUMENTS` go to pytest")
    running.add_argument("lane")
    running.add_argument("--plan", default="fast", help="fast: a fixed sample; full: everything")
    running.add_argument(
        "--shard", default="1/1", metavar="I/N", help="every n-th case of the plan"
    )
    running.add_argument("--rows", default="*", metavar="PATTERN", help="rows by shell pattern")
    running.add_argument("--device", default="cpu", help="backend to run on")
    about = "leave out cases that need the library of a test build; the receipt stays local"
    running.add_argument("--without-faults", action="store_true", help=about)
    running.add_argument("--out", type=Path, help="folder for the receipts")
    running.add_argument("-n", dest="workers", type=int, default=0, help="worker processes")
    planning = add("plan", _plan, "write or check the committed plans")
    which = planning.add_mutually_exclusive_group(required=True)
    which.add_argument("--write", action="store_true", help="write lanes/plans")
    which.add_argument("--check", action="store_true", help="exit 1 if a plan is stale")
    add("list", _list, "list the lanes")
    merging = add("merge", _merge, "join the receipts of all shards of a plan")
    merging.add_argument("receipts", nargs="+", type=Path)
    merging.add_argument("--out", type=Path, help="folder for the merged receipt")
    verifying = add("verify", _verify, "hold a receipt against this checkout")
    verifying.add_argument("receipt", type=Path)
    verifying.add_argument("--rerun", type=int, default=0, metavar="N", help="run N cases again")
    verifying.add_argument("--sample-seed", metavar="TEXT", help="repeat the sample of a rerun")
    return parser


def _run(options: argparse.Namespace) -> int:
    from lanes.plan import shard_of
    from lanes.run import ALL, Request, run

    request = Request(
        lane=options.lane,
        plan=options.plan,
        shard=shard_of(options.shard),
        rows=options.rows,
        device=options.device,
        out=options.out.resolve() if options.out else None,
        workers=options.workers,
        faults=not options.without_faults,
        pytest=options.pytest,
    )
    if request.lane == ALL and request.plan != "fast":
        from lanes.registry import LaneError

        rule = "`fast` is every lane at plan fast"
        raise LaneError("lanes", rule, f"--plan {request.plan}", "name a lane")
    return run(request)


def _plan(options: argparse.Namespace) -> int:
    from lanes.plan import settle

    return settle(write=options.write)


def _list(_: argparse.Namespace) -> int:
    from lanes.registry import lane_names

    print("\n".join(lane_names()))
    return 0


def _merge(options: argparse.Namespace) -> int:
    from lanes.merge import merge_files

    return merge_files(options.receipts, out=options.out)


def _verify(options: argparse.Namespace) -> int:
    from lanes.verify import verify_file

    return verify_file(options.receipt, rerun=options.rerun, seed=options.sample_seed)


if __name__ == "__main__":
    raise SystemExit(main())
