"""``retrograd capabilities``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from retrograd.admission import Judge
    from retrograd.backends import Device


def capabilities(
    device: Annotated[str, typer.Option(help="Backend to ask.")] = "cpu",
    as_json: Annotated[  # noqa: FBT002 — a flag of the command line
        bool, typer.Option("--json", help="Print JSON.")
    ] = False,
) -> None:
    """Say what this build registered on a device, and what the evidence table says of it."""
    import json

    from retrograd.backends import open_device

    found = registered(open_device(device))
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)


def registered(device: "Device") -> dict[str, Any]:
    """The device, its rows and its capabilities as JSON values; what is unknown is left out."""
    from retrograd.admission import Judge

    judge = Judge(device)
    probe = device.probe()
    return {
        "device": {
            "backend": device.name,
            "environment": f"{device.env_class}-{device.toolchain}",
            "machine": judge.place.machine,
            "threads": {"requested": device.threads, "effective": probe["threads"]},
            "isa": _isa(str(probe["isa"])),
            "blas": probe["blas"],
            "compiler": f"{probe['compiler']} {probe['compiler_version']}",
        },
        "table": judge.table.digest or "none in this package",
        "rows": {row_id: _row(judge, row_id) for row_id in sorted(device.layouts)},
        "capabilities": {
            cell.id: judge.standing.cell(cell)[0].state
            for cell in judge.table.cells.values()
            if cell.backend == device.name
        },
    }


def _isa(effective: str) -> dict[str, str]:
    import os

    requested = os.environ.get("RETRO_CPU_ISA")
    return {"effective": effective, **({"requested": requested} if requested else {})}


def _row(judge: "Judge", row_id: str) -> dict[str, Any]:
    """State of a row; whether the library's digest is that of the table where it has one."""
    from retrograd.admission import Refused

    answer = judge.row(row_id)
    found, note = judge.standing.row(row_id)
    listed = judge.table.rows.get(row_id)
    entry: dict[str, Any] = {"state": found.state, "admitted": not isinstance(answer, Refused)}
    if listed is not None and listed.kernel is not None:
        entry["digest_matches"] = judge.device.digests.get(row_id) == listed.kernel
    told = note or found.cause
    return entry | ({"note": told} if told else {})


def _print(found: dict[str, Any]) -> None:
    device = found["device"]
    threads, isa = device["threads"], device["isa"]
    asked = f" ({isa['requested']} requested)" if "requested" in isa else ""
    print(f"{device['environment']} on {device['machine']}")
    print(f"threads: {threads['requested']} requested, {threads['effective']} effective")
    print(f"instruction set: {isa['effective']}{asked}")
    print(f"BLAS: {device['blas']}")
    print(f"compiler: {device['compiler']}")
    print(f"table: {found['table']}")
    for title, states in (
        ("kernel rows", {name: _words(row) for name, row in found["rows"].items()}),
        ("capabilities", found["capabilities"]),
    ):
        print(f"{title}: {len(states)}")
        width = max(map(len, states), default=0)
        for name, words in states.items():
            print(f"  {name:<{width}}  {words}")


def _words(row: dict[str, Any]) -> str:
    differs = row.get("digest_matches") is False
    note = row.get("note", "")
    words = row["state"] + (f" ({note})" if note else "")
    return words + ("; the library's digest differs from the table's" if differs else "")
