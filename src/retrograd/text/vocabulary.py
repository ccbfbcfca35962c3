"""The vocabulary a GGUF file carries, checked before anything is built from it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from numbers import Real
from typing import cast

import numpy as np

from retrograd.errors import GgufError

_PREFIX = "tokenizer.ggml."
_REMEDY = "convert the model to GGUF again, or use another copy of it"

MODELS = ("gpt2", "llama")
"""Vocabulary models with a reader here: byte-level BPE, and SentencePiece BPE with scores."""

# Texts that end a turn in the families' templates. A file often names only one of them.
_END_OF_TURN_TEXTS = frozenset(
    {
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|eot|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    }
)


class TokenType(IntEnum):
    """What a token is for, as GGUF numbers it."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


CONTROL_TYPES = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})
"""Tokens that are never text: parsed only where special tokens are, and dropped when decoding."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and the rules that come with them.

    Attributes:
        model: one of :data:`MODELS`.
        pre: name of the pre-tokenizer; empty when the file gives none.
        tokens: text of each id, as stored.
        types: what each id is for.
        merges: pairs in rank order; empty for ``llama``.
        scores: one per id; empty for ``gpt2``.
        bos_id, eos_id, unknown_id: special ids, or None.
        eot_ids: every id that ends a turn, the end of text among them.
        add_bos, add_eos, add_space_prefix: the file's flags; None where it does not say.
    """

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: tuple[TokenType, ...]
    merges: tuple[tuple[str, str], ...]
    scores: tuple[float, ...]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    eot_ids: frozenset[int]
    add_bos: bool | None
    add_eos: bool | None
    add_space_prefix: bool | None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> "Vocabulary":
        """Read and check the ``tokenizer.ggml.*`` keys.

        Raises:
            GgufError: a key is missing, of the wrong type, or contradicts another.
        """
        model = _text(metadata, "model", None)
        if model not in MODELS:
            raise GgufError(
                "tokenizer",
                f"the vocabulary model must be one of {', '.join(MODELS)}",
                repr(model),
                "use a model with one of these vocabularies",
            )
        tokens = _tokens(metadata)
        types = _types(metadata, len(tokens))
        ids = {token: i for i, token in enumerate(tokens)}
        bos, eos, unknown, eot, eom = (
            _id(metadata, f"{name}_token_id", len(tokens))
            for name in ("bos", "eos", "unknown", "eot", "eom")
        )
        known = {
            ids[text]
            for text in _END_OF_TURN_TEXTS & ids.keys()
            if types[ids[text]] in (TokenType.CONTROL, TokenType.USER_DEFINED)
        }
        return cls(
            model=model,
            pre=_text(metadata, "pre", ""),
            tokens=tokens,
            types=types,
            merges=_merges(metadata, ids) if model == "gpt2" else (),
            scores=_scores(metadata, len(tokens)) if model == "llama" else (),
            bos_id=bos,
            eos_id=eos,
            unknown_id=unknown,
            eot_ids=frozenset(known | {i for i in (eos, eot, eom) if i is not None}),
            add_bos=_flag(metadata, "add_bos_token"),
            add_eos=_flag(metadata, "add_eos_token"),
            add_space_prefix=_flag(metadata, "add_space_prefix"),
        )


def _bad(key: str, rule: str, got: object) -> GgufError:
    return GgufError("tokenizer", f"{_PREFIX}{key} {rule}", got, _REMEDY)


def _text(metadata: Mapping[str, object], key: str, default: str | None) -> str:
    value = metadata.get(_PREFIX + key, default)
    if not isinstance(value, str):
        raise _bad(key, "must be a string", "nothing" if value is None else type(value).__name__)
    return value


def _flag(metadata: Mapping[str, object], key: str) -> bool | None:
    value = metadata.get(_PREFIX + key)
    if value is None or isinstance(value, bool):
        return value
    raise _bad(key, "must be a boolean", repr(value)[:80])


def _id(metadata: Mapping[str, object], key: str, n_tokens: int) -> int | None:
    value = metadata.get(_PREFIX + key)
    if value is None:
        return None
    number = _whole(value)
    if number is None or not 0 <= number < n_tokens:
        raise _bad(key, f"must be an id below {n_tokens}", repr(value)[:80])
    return number


def _whole(value: object) -> int | None:
    """A whole number of any integer type, numpy's among them."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(cast("int", value))
    return None


def _array(metadata: Mapping[str, object], key: str, length: int | None) -> list[object] | None:
    value = metadata.get(_PREFIX + key)
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _bad(key, "must be an array", type(value).__name__)
    items = list(cast("Iterable[object]", value))
    if length is not None and len(items) != length:
        raise _bad(key, f"must have one entry for each of {length} tokens", f"{len(items)} entries")
    return items


def _strings(items: list[object], key: str) -> tuple[str, ...]:
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise _bad(key, "must hold strings", f"{type(item).__name__} at index {i}")
        if not item.isascii() and not is_encodable(item):
            raise _bad(key, "must hold valid UTF-8", f"{item[:40]!a} at index {i}")
    return tuple(cast("list[str]", items))


def is_encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form: a lone surrogate has none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _tokens(metadata: Mapping[str, object]) -> tuple[str, ...]:
    items = _array(metadata, "tokens", None)
    if not items:
        raise _bad("tokens", "must list at least one token", "nothing")
    tokens = _strings(items, "tokens")
    if len(set(tokens)) != len(tokens):
        first: dict[str, int] = {}
        for i, token in enumerate(tokens):
            if first.setdefault(token, i) != i:
                got = f"{token[:40]!r} at {first[token]} and {i}"
                raise _bad("tokens", "must not repeat a token", got)
    return tokens


def _types(metadata: Mapping[str, object], n_tokens: int) -> tuple[TokenType, ...]:
    items = _array(metadata, "token_type", n_tokens)
    if items is None:
        return (TokenType.NORMAL,) * n_tokens
    known = {int(member): member for member in TokenType}
    types: list[TokenType] = []
    for i, item in enumerate(items):
        number = _whole(item)
        member = None if number is None else known.get(number)
        if member is None:
            raise _bad("token_type", "must lie between 0 and 6", f"{item!r} at index {i}")
        types.append(member)
    return tuple(types)


def _scores(metadata: Mapping[str, object], n_tokens: int) -> tuple[float, ...]:
    items = _array(metadata, "scores", n_tokens)
    if items is None:
        raise _bad("scores", "must be given for a vocabulary of model 'llama'", "nothing")
    scores: list[float] = []
    for i, item in enumerate(items):
        if not isinstance(item, Real) or not math.isfinite(item):
            raise _bad("scores", "must hold finite numbers", f"{item!r} at index {i}")
        scores.append(float(item))
    return tuple(scores)


def _merges(metadata: Mapping[str, object], ids: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    items = _array(metadata, "merges", None)
    if items is None:
        raise _bad("merges", "must be given for a vocabulary of model 'gpt2'", "nothing")
    merges: list[tuple[str, str]] = []
    for i, item in enumerate(_strings(items, "merges")):
        # A piece may itself begin with a space, so the separator is looked for from index 1.
        cut = item.find(" ", 1)
        if cut < 0 or cut == len(item) - 1:
            got = f"{item[:40]!r} at index {i}"
            raise _bad("merges", "must hold two tokens with a space between", got)
        left, right = item[:cut], item[cut + 1 :]
        for token in (left, right, left + right):
            if token not in ids:
                got = f"{token[:40]!r} in merge {i}"
                raise _bad("merges", "must name tokens of the vocabulary only", got)
        merges.append((left, right))
    if len(set(merges)) != len(merges):
        seen: set[tuple[str, str]] = set()
        again = next(pair for pair in merges if pair in seen or seen.add(pair))
        raise _bad("merges", "must not repeat a pair", repr(again))
    return tuple(merges)
