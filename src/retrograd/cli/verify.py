"""``retrograd verify``: the kernel lanes on this machine, and what holds here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from retrograd.backends import Device
    from retrograd.overlay import Local

PACKAGE = "retrograd-verify"
KERNEL_LANES = ("formats", "ops")
NOT_VERIFIED = 2
FAULT = 1


def verify(
    device: Annotated[str, typer.Option(help="Backend to verify.")] = "cpu",
    plan: Annotated[
        str, typer.Option(help="How much to run: a sample of each row's cases, or 'full'.")
    ] = "fast",
    lane: Annotated[
        list[str] | None,
        typer.Option(help="Lane to run; may be repeated. Default: those of the kernels."),
    ] = None,
) -> None:
    """Run the kernel lanes on this machine, say row by row what holds, and keep it for admission.

    Needs the evidence code: the distribution retrograd-verify, or a checkout. What is found counts
    on this machine for this build, and is shown nowhere else.
    """
    from retrograd.admission import place_of
    from retrograd.backends import open_device
    from retrograd.overlay import Overlay, library_digest, read_overlay, write_overlay

    opened = open_device(device)
    place = place_of(opened)
    library = library_digest(opened.digests)
    evidence = find_evidence()
    rows: dict[str, Local] = {}
    started = ""
    for name in lane or KERNEL_LANES:
        receipt = run_lane(evidence, name, plan=plan, device=device)
        found = held(receipt, opened)
        started = started or str(receipt["predicate"]["run"]["started"])
        for row_id, local in found.items():
            print(f"  {row_id:<44}  {local.state}{_reason(local)}")
        rows |= found
    earlier = read_overlay(place)
    if earlier is not None and earlier.library == library:
        rows = {**earlier.rows, **rows}
    path = write_overlay(Overlay(place, library, started, dict(sorted(rows.items()))))
    failed = [row_id for row_id, local in rows.items() if local.state != "verified"]
    print(f"{place.environment} on {place.machine}: {len(rows) - len(failed)} rows hold,")
    print(f"{len(failed)} do not; kept for this machine in {path}")
    if failed:
        raise typer.Exit(FAULT)


def find_evidence() -> Path:
    """The folder that holds `lanes`: of this checkout, of the distribution, or the present one.

    Raises:
        ConfigError: none of them holds the evidence code of this version.
    """
    from importlib.util import find_spec

    from retrograd.errors import ConfigError
    from retrograd.version import VERSION

    spec = find_spec(PACKAGE.replace("-", "_"))
    installed = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    for folder in (Path(__file__).resolve().parents[3], *installed, Path.cwd()):
        if _holds_lanes(folder, VERSION):
            return folder
    rule = f"the evidence code of retrograd {VERSION} is there"
    got = f"{PACKAGE} of another version" if installed else f"no {PACKAGE}"
    remedy = f"install {PACKAGE}=={VERSION} into this environment, or start this in a checkout"
    raise ConfigError("verify", rule, got, remedy)


def _holds_lanes(folder: Path, version: str) -> bool:
    source = folder / "src" / "retrograd" / "version.py"
    if not (folder / "lanes" / "__main__.py").is_file() or not source.is_file():
        return False
    return f'"{version}"' in source.read_text(encoding="utf-8")


def run_lane(evidence: Path, lane: str, *, plan: str, device: str) -> dict[str, Any]:
    """Runs a lane as a process and returns its receipt.

    Raises:
        DeviceError: it did not come to a verdict; its own lines have said why.
    """
    from retrograd.errors import DeviceError

    with TemporaryDirectory(prefix="retrograd-verify-") as out:
        command = [sys.executable, "-m", "lanes", "run", lane]
        command += ["--plan", plan, "--device", device, "--out", out]
        if lane == "ops":
            # The rows alone: planted faults belong to test builds, which a user does not have.
            command += ["--rows", f"*.{device}", "--without-faults"]
        # The lanes run this very package, wherever else another one may be installed.
        here = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        environment = {**os.environ, "PYTHONPATH": paths}
        done = subprocess.run(command, cwd=evidence, env=environment, check=False)
        receipts = sorted(Path(out).glob("*/*.json"))
        if done.returncode == NOT_VERIFIED or len(receipts) != 1:
            rule = f"the lane {lane} comes to a verdict"
            got = f"exit {done.returncode} and {len(receipts)} receipts"
            raise DeviceError("verify", rule, got, "see the lines above")
        return json.loads(receipts[0].read_bytes())


def held(receipt: dict[str, Any], device: "Device") -> "dict[str, Local]":
    """What a receipt says of each row, for the overlay.

    Raises:
        DeviceError: it was not made here, or by another library.
    """
    from retrograd.errors import DeviceError
    from retrograd.overlay import Local

    predicate: dict[str, Any] = receipt["predicate"]
    environment = predicate["environment"]
    told = (environment["class"], environment["toolchain"])
    kernels = {
        row: parts["kernel"]
        for row, parts in predicate["digests"]["rows"].items()
        if row in device.layouts
    }
    odd = [row for row, digest in kernels.items() if digest != device.digests[row]]
    if told != (device.env_class, device.toolchain) or odd:
        rule = "the lanes run the library that is verified"
        got = f"{'-'.join(map(str, told))}, {len(odd)} rows of another library"
        remedy = "install the evidence code beside this build"
        raise DeviceError("verify", rule, got, remedy)
    digests = {entry["name"]: entry["digest"]["sha256"] for entry in receipt["subject"]}
    failures: dict[str, str] = {}
    for case in cast("list[dict[str, Any]]", predicate["cases"]):
        if case["status"] == "failed":
            failures.setdefault(case["row"], f"case {case['case']}: {case['reason']}")
    return {
        row: Local(
            "failed" if row in failures else "verified",
            digest,
            kernels.get(row),
            failures.get(row, ""),
        )
        for row, digest in digests.items()
    }


def _reason(local: "Local") -> str:
    return f": {local.reason}" if local.reason else ""
