"""``retrograd generate MODEL --prompt TEXT``."""

from pathlib import Path
from typing import Annotated

import typer

from retrograd.cli.options import scoring_options


def generate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A GGUF file.")],
    prompt: Annotated[
        list[str], typer.Option(help="What to ask; several are answered side by side.")
    ],
    adapter: Annotated[
        Path | None,
        typer.Option(help="A LoRA adapter in GGUF form [cell:training.lora-sft.cpu]."),
    ] = None,
    system: Annotated[str | None, typer.Option(help="System message of the conversation.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to add.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample within this probability.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Sample among this many tokens; 0 for all.")] = 0,
    seed: Annotated[int, typer.Option(help="Key of the sampling stream.")] = 0,
    raw: Annotated[  # noqa: FBT002 — a flag of the command line
        bool, typer.Option("--raw", help="Continue the text itself, without a conversation.")
    ] = False,
) -> None:
    """Ask a model, with or without an adapter, and print what it answers."""
    if raw and system is not None:
        raise typer.BadParameter("--system belongs to a conversation, which --raw has none of")
    from retrograd.gguf import open_gguf
    from retrograd.train.trainer import Trainer

    trainer = Trainer(model, training=scoring_options(open_gguf(model)))
    if adapter is not None:
        trainer.load_adapter(adapter)
    answers = trainer.generate(
        prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        chat=not raw,
        system=system,
    )
    for answer in answers:
        print(answer.text)
        if answer.stopped == "length":
            typer.echo(f"(stopped after {len(answer.token_ids)} tokens)", err=True)
