"""``retrograd inspect MODEL``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrograd.gguf import GgufFile
    from retrograd.text import Tokenizer


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A GGUF file.")],
    as_json: Annotated[  # noqa: FBT002 — a flag of the command line
        bool, typer.Option("--json", help="Print JSON.")
    ] = False,
) -> None:
    """Say what a model is and which kernel rows a LoRA run on it would use.

    What is known of such runs: [cell:training.lora-sft.cpu].
    """
    import json

    found = findings(model)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)


def findings(path: Path) -> dict[str, Any]:
    """What is known of a model file, as JSON values.

    Parts that retrograd refuses hold ``{"refused": message}`` in place of their values; only a file
    that is no trustworthy GGUF raises.

    Raises:
        GgufError: the file cannot be trusted.
    """
    from retrograd.gguf import open_gguf

    file = open_gguf(path)
    name = file.metadata.get("general.name")
    return {
        "file": str(file.path),
        "bytes": file.n_bytes,
        "gguf_version": file.version,
        "name": name if isinstance(name, str) else None,
        "architecture": file.require("general.architecture", str),
        "parameters": sum(info.n_elements for info in file.tensors.values()),
        "model": _or_refused(_geometry, file),
        "formats": _formats(file),
        "tokenizer": _or_refused(_tokenizer, file),
        "kernel_rows": _or_refused(_kernel_rows, file),
    }


def _or_refused(look: "Callable[[GgufFile], dict[str, Any]]", file: "GgufFile") -> dict[str, Any]:
    from retrograd.errors import RetrogradError

    try:
        return look(file)
    except RetrogradError as error:
        return {"refused": str(error)}


def _geometry(file: "GgufFile") -> dict[str, Any]:
    from retrograd.families import read_config, recognise

    config = read_config(file, recognise(file))
    keys = ("n_layers", "width", "heads", "kv_heads", "head_size", "feed_forward")
    keys += ("vocabulary", "context", "tied")
    return {key: getattr(config, key) for key in keys}


def _formats(file: "GgufFile") -> list[dict[str, Any]]:
    """Tensors by storage format, the format with most bytes first."""
    from retrograd.formats import FORMATS

    rows: dict[str, dict[str, Any]] = {}
    for info in file.tensors.values():
        fresh = {"format": info.format, "tensors": 0, "bytes": 0, "decoder": info.format in FORMATS}
        row = rows.setdefault(info.format, fresh)
        row["tensors"] += 1
        row["bytes"] += info.n_bytes
    return sorted(rows.values(), key=lambda row: -row["bytes"])


def _tokenizer(file: "GgufFile") -> dict[str, Any]:
    from retrograd.text import Tokenizer

    tokenizer = Tokenizer.from_metadata(file.metadata)
    vocabulary = tokenizer.vocabulary
    return {
        "model": vocabulary.model,
        "pre_tokenizer": vocabulary.pre,
        "tokens": tokenizer.n_tokens,
        "bos": _token(tokenizer, tokenizer.bos_id),
        "eos": _token(tokenizer, tokenizer.eos_id),
        "end_of_turn": [tokenizer.token_text(i) for i in sorted(tokenizer.eot_ids)],
        "chat_template": tokenizer.chat_template is not None,
    }


def _token(tokenizer: "Tokenizer", token_id: int | None) -> str | None:
    return None if token_id is None else tokenizer.token_text(token_id)


def _kernel_rows(file: "GgufFile") -> dict[str, Any]:
    """State of each row that a step of a LoRA on every target uses."""
    from retrograd.backends import open_device
    from retrograd.config.options import LoraOptions, TrainingOptions
    from retrograd.train.preflight import foresee, states

    return dict(states(foresee(file, LoraOptions(), TrainingOptions(), open_device())))


def _print(found: dict[str, Any]) -> None:
    from retrograd.train.progress import size

    print(f"{found['file']}: GGUF version {found['gguf_version']}, {size(found['bytes'])}")
    print(f"name: {found['name'] or 'none'}")
    print(f"architecture: {found['architecture']}, {found['parameters']:,} parameters")
    _print_part("model", found["model"])
    print("tensors:")
    print(f"  {'format':<8}{'tensors':>8}{'bytes':>16}")
    for row in found["formats"]:
        note = "" if row["decoder"] else "  (no decoder)"
        print(f"  {row['format']:<8}{row['tensors']:>8}{row['bytes']:>16,}{note}")
    _print_part("tokenizer", found["tokenizer"])
    _print_part("kernel rows of a LoRA run", found["kernel_rows"])


def _print_part(title: str, part: dict[str, Any]) -> None:
    if "refused" in part:
        print(f"{title}: refused: {part['refused']}")
        return
    print(f"{title}:")
    width = max(map(len, part), default=0)
    for key, value in part.items():
        print(f"  {key:<{width}}  {_words(value)}")


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(str(one) for one in cast("list[object]", value))
    return "none" if value is None else str(value)
