"""``retrograd preflight RUN.toml``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrograd.cli.train import overrides

if TYPE_CHECKING:
    from retrograd.train.preflight import Preflight

REFUSED = 2


def preflight(
    document: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run document.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the document."),
    ] = None,
) -> None:
    """Say what a run would use and whether it is admitted, without touching a weight."""
    from retrograd.backends import open_device
    from retrograd.config.document import load_document
    from retrograd.gguf import open_gguf
    from retrograd.train.preflight import foresee

    run = load_document(document, overrides=overrides(set_))
    device = open_device(run.model.device, threads=run.training.threads or None)
    found = foresee(open_gguf(run.model.path), run.lora, run.training, device)
    print(f"{run.output.name} on {device.env_class}-{device.toolchain}")
    _print(found)
    if found.refused:
        raise typer.Exit(REFUSED)


def _print(found: "Preflight") -> None:
    width = max(len(answer.id) for answer in found.cells)
    print("capabilities:")
    for answer in found.cells:
        print(f"  {answer.id:<{width}}  {answer.state}")
    ops = max(len(use.op) for use in found.rows)
    rows = max(len(use.row) for use in found.rows)
    print(f"{sum(use.nodes for use in found.rows)} nodes:")
    print(f"  {'op':<{ops}}  {'nodes':>6}  {'kernel row':<{rows}}  state")
    for use in found.rows:
        print(f"  {use.op:<{ops}}  {use.nodes:>6}  {use.row:<{rows}}  {use.answer.state}")
    refused = found.refused
    print(f"{len(refused)} refused" + (":" if refused else ""))
    for answer in refused:
        print(f"  {answer.error()}")
