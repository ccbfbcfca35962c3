"""``retrograd train RUN.toml``."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    document: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run document.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Replace a value of the document, such as training.steps=20; may be repeated.",
        ),
    ] = None,
) -> None:
    """Train as a run document says and write the run folder."""
    from retrograd.config.document import load_document
    from retrograd.train import run

    result = run(load_document(document, overrides=overrides(set_)))
    raise typer.Exit(result.exit_code)


def overrides(assignments: list[str] | None) -> dict[str, object]:
    """Keys and values of ``--set``."""
    return dict(map(_assignment, assignments or []))


def _assignment(text: str) -> tuple[str, object]:
    """Key and value of ``key=value``; the value is read as TOML, and as text where it is none."""
    import tomllib

    key, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="--set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
