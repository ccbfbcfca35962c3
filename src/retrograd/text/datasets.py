"""Training and evaluation data from a file.

Three kinds of file, told apart by what they hold and never mixed in one:

- ``chat``: JSON lines ``{"messages": [...]}``, optionally with ``"tools"``. Loss on the assistant.
- ``completion``: JSON lines ``{"prompt": "...", "completion": "..."}``. Loss on the completion.
- ``text``: plain text, one token stream cut into windows. Loss on every token but the first.

All bad lines of a file are reported together, each with its number.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import ConfigError, DataError, RetrogradError
from retrograd.philox import Purpose, stream_words
from retrograd.text.chat import ChatTemplate, Message
from retrograd.text.examples import IGNORED, Example, supervise
from retrograd.text.jsonl import BadLines, Row, decode_text, is_json_lines, read_rows
from retrograd.text.masks import (
    check_characters,
    tokenize_chat,
    tokenize_completion,
    with_begin,
)
from retrograd.text.tokenizer import Tokenizer

Kind = Literal["chat", "completion", "text"]
TooLong = Literal["refuse", "drop", "truncate"]


@dataclass(frozen=True)
class Dataset:
    """The rows of one file, tokenized.

    Attributes:
        path: the file.
        kind: what it holds.
        examples: rows in file order.
        n_dropped: rows left out because they are longer than ``max_tokens``.
        n_truncated: rows cut to ``max_tokens``.
    """

    path: Path
    kind: Kind
    examples: tuple[Example, ...]
    n_dropped: int = 0
    n_truncated: int = 0

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.examples)

    @property
    def n_tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(example.token_ids) for example in self.examples)

    @property
    def n_supervised(self) -> int:
        """Supervised tokens of all rows."""
        return sum(example.n_supervised for example in self.examples)

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Order of the rows in one epoch: a pure function of seed, epoch and the number of rows.

        Returns:
            (len(self),) int64, a permutation.
        """
        return shuffled(len(self.examples), seed, epoch)


def shuffled(n_rows: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """A permutation of ``range(n_rows)``.

    Row i gets the 64-bit key ``word[2i] << 32 | word[2i + 1]`` of the stream (seed, shuffle, epoch,
    "rows"); the order is that of the keys, equal keys in row order.

    Returns:
        (n_rows,) int64.
    """
    words = stream_words(seed, Purpose.SHUFFLE, epoch, "rows", 2 * n_rows).astype(np.uint64)
    keys = words[0::2] << np.uint64(32) | words[1::2]
    return np.argsort(keys, kind="stable").astype(np.int64)


def load_examples(
    path: str | Path,
    tokenizer: Tokenizer,
    *,
    max_tokens: int,
    kind: Literal["auto"] | Kind = "auto",
    too_long: TooLong = "refuse",
    template: ChatTemplate | None = None,
) -> Dataset:
    """Read, check and tokenize a file.

    Args:
        path: UTF-8 file; a byte-order mark, CRLF line ends and blank lines are accepted.
        tokenizer: the model's tokenizer.
        max_tokens: longest row, in tokens; also the window of plain text. At least 2.
        kind: what the file must hold; ``auto`` finds out.
        too_long: what to do with a longer row: refuse the file, drop the row, or cut its end off.
        template: for chat rows, another template, or one with variables or a fixed date.

    Raises:
        DataError: the file cannot be read, is empty, mixes kinds or has bad lines.
        ConfigError: an argument is out of its domain.
        GgufError: chat rows, and the model has no template.
    """
    path = Path(path)
    _check_arguments(max_tokens, kind, too_long)
    text = decode_text(path)
    if kind == "text" or (kind == "auto" and not is_json_lines(path, text)):
        return Dataset(path, "text", _windows(path, text, tokenizer, max_tokens))
    bad = BadLines(path)
    rows = read_rows(text, bad)
    found = _one_kind(rows, kind, bad)
    if found == "chat" and template is None:
        template = ChatTemplate.of(tokenizer)
    examples: list[Example] = []
    for row in rows:
        origin = f"{path.name}:{row.line}"
        try:
            examples.append(_tokenize(row, found, tokenizer, template, origin))
        except RetrogradError as error:
            bad.add(row.line, f"{error.rule}; got {error.got}")
    kept, n_cut = _fit(examples, max_tokens, too_long, bad)
    bad.raise_if_any()
    _require_rows(path, kept)
    n_dropped = len(examples) - len(kept)
    return Dataset(path, found, tuple(kept), n_dropped=n_dropped, n_truncated=n_cut)


def _check_arguments(max_tokens: int, kind: str, too_long: str) -> None:
    if max_tokens < 2:
        raise ConfigError(
            "data", "max_tokens must be at least 2", max_tokens, "choose a longer row"
        )
    for name, value, known in (
        ("kind", kind, ("auto", *get_args(Kind))),
        ("too_long", too_long, get_args(TooLong)),
    ):
        if value not in known:
            raise ConfigError(
                "data", f"{name} must be one of {', '.join(known)}", repr(value), "choose one"
            )


def _one_kind(rows: Sequence[Row], wanted: str, bad: BadLines) -> Kind:
    """The kind all rows share; rows of another kind, or of none, become bad lines."""
    expected = None if wanted == "auto" else cast("Kind", wanted)
    for row in rows:
        row_kind = _kind_of(row)
        if row_kind is None:
            keys = ", ".join(map(repr, row.values))[:80] or "none"
            bad.add(row.line, f'keys must be "messages", or "prompt" and "completion"; got {keys}')
        elif expected is None:
            expected = row_kind
        elif row_kind != expected:
            bad.add(
                row.line, f"rows of a file must be of one kind, here {expected}; got {row_kind}"
            )
    bad.raise_if_any()
    if expected is None:
        raise _empty(bad.path)
    return expected


def _kind_of(row: Row) -> Kind | None:
    chat = "messages" in row.values
    completion = "prompt" in row.values or "completion" in row.values
    if chat == completion or (completion and not {"prompt", "completion"} <= row.values.keys()):
        return None
    return "chat" if chat else "completion"


def _tokenize(
    row: Row, kind: Kind, tokenizer: Tokenizer, template: ChatTemplate | None, origin: str
) -> Example:
    if kind == "completion":
        texts = [row.values["prompt"], row.values["completion"]]
        for name, value in zip(("prompt", "completion"), texts, strict=True):
            if not isinstance(value, str):
                raise DataError(origin, f"{name} must be a string", type(value).__name__, "fix it")
        prompt, completion = cast("list[str]", texts)
        return tokenize_completion(prompt, completion, tokenizer, origin=origin)
    messages = row.values["messages"]
    if not isinstance(messages, list):
        raise DataError(origin, "messages must be a list", type(messages).__name__, "fix it")
    tools = row.values.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise DataError(origin, "tools must be a list", type(tools).__name__, "fix it")
    if template is not None and tools:
        template = dataclasses.replace(template, tools=cast("list[object]", tools))
    return tokenize_chat(
        cast("list[Message]", messages), tokenizer, template=template, origin=origin
    )


def _fit(
    examples: Sequence[Example], max_tokens: int, too_long: TooLong, bad: BadLines
) -> tuple[list[Example], int]:
    """The rows that fit, and how many were cut to fit."""
    kept: list[Example] = []
    n_cut = 0
    for example in examples:
        n_tokens = len(example.token_ids)
        if n_tokens <= max_tokens:
            kept.append(example)
            continue
        line = int(example.origin.rpartition(":")[2])
        if too_long == "refuse":
            bad.add(line, f"a row must have at most {max_tokens} tokens; got {n_tokens}")
        elif too_long == "truncate":
            labels = example.labels[:max_tokens]
            if all(label == IGNORED for label in labels):
                bad.add(
                    line,
                    f"the first {max_tokens} tokens must hold a supervised one;"
                    f" got none among them in a row of {n_tokens}",
                )
            n_cut += 1
            kept.append(Example(example.token_ids[:max_tokens], labels, example.origin))
    return kept, n_cut


def _windows(path: Path, text: str, tokenizer: Tokenizer, max_tokens: int) -> tuple[Example, ...]:
    """Plain text as windows; they share one token, so each token but the first is learnt once."""
    for number, line in enumerate(text.split("\n"), 1):
        check_characters(line, tokenizer, origin=f"{path.name}:{number}")
    ids, _ = with_begin(tokenizer.encode(text, parse_special=False), set(), tokenizer)
    if tokenizer.add_eos and tokenizer.eos_id is not None:
        ids.append(tokenizer.eos_id)
    starts = range(0, len(ids) - 1, max_tokens - 1)
    pieces = [ids[start : start + max_tokens] for start in starts]
    examples = tuple(
        supervise(piece, set(range(len(piece))), f"{path.name} window {i}")
        for i, piece in enumerate(pieces)
    )
    _require_rows(path, examples)
    return examples


def _require_rows(path: Path, examples: Sequence[Example]) -> None:
    if not examples:
        raise _empty(path)


def _empty(path: Path) -> DataError:
    return DataError(
        "data",
        "a data file must leave at least one row to train on",
        f"none from {path}",
        "check the file, max_tokens and too_long",
    )
