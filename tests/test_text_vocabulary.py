"""Malformed vocabularies: each is refused in words, never by the library underneath."""

import math

import numpy as np
import pytest

from retrograd.errors import GgufError
from retrograd.text import Tokenizer
from tests.text_vocabularies import byte_level, sentence_piece

PIECES = (("a", -1.0), ("b", -2.0), ("ab", -3.0))
TOKENS = byte_level(())["tokenizer.ggml.tokens"]
assert isinstance(TOKENS, list)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "tokens must list at least one token"),
        ({"tokens": "abc"}, "tokens must be an array; got str"),
        ({"tokens": 7}, "tokens must be an array; got int"),
        ({"tokens": [*TOKENS[:-1], 5]}, "tokens must hold strings; got int at index 258"),
        ({"tokens": [*TOKENS[:-1], "a"]}, "must not repeat a token; got 'a' at 97 and 258"),
        ({"tokens": [*TOKENS[:-1], "\ud800"]}, "must hold valid UTF-8; got .* at index 258"),
        ({"tokens": TOKENS[:-1]}, "one entry for each of 258 tokens; got 259 entries"),
        ({"token_type": [1] * 258 + [7]}, "between 0 and 6; got 7 at index 258"),
        ({"token_type": ["x"] * 259}, "between 0 and 6; got 'x' at index 0"),
        ({"merges": None}, "merges must be given for a vocabulary of model 'gpt2'"),
        ({"merges": ["a"]}, "two tokens with a space between; got 'a' at index 0"),
        ({"merges": ["a "]}, "two tokens with a space between; got 'a ' at index 0"),
        ({"merges": ["a nothing"]}, "tokens of the vocabulary only; got 'nothing' in merge 0"),
        ({"merges": ["a b"]}, "tokens of the vocabulary only; got 'ab' in merge 0"),
        ({"merges": [5]}, "merges must hold strings; got int at index 0"),
        ({"eos_token_id": 259}, "eos_token_id must be an id below 259; got 259"),
        ({"bos_token_id": -1}, "bos_token_id must be an id below 259; got -1"),
        ({"eot_token_id": True}, "eot_token_id must be an id below 259; got True"),
        ({"unknown_token_id": "0"}, "unknown_token_id must be an id below 259; got '0'"),
        ({"add_bos_token": 1}, "add_bos_token must be a boolean; got 1"),
        ({"model": None}, "model must be a string; got nothing"),
        ({"pre": 3}, "pre must be a string; got int"),
    ],
)
def test_malformed_byte_level(change: dict[str, object], message: str) -> None:
    metadata = byte_level(()) | {f"tokenizer.ggml.{key}": change[key] for key in change}
    kept = {key: value for key, value in metadata.items() if value is not None}
    with pytest.raises(GgufError, match=message):
        Tokenizer.from_metadata(kept)


def test_a_repeated_merge_is_refused() -> None:
    metadata = byte_level(("a|b",))
    metadata["tokenizer.ggml.merges"] = ["a b", "a b"]
    with pytest.raises(GgufError, match="must not repeat a pair"):
        Tokenizer.from_metadata(metadata)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": None}, "scores must be given for a vocabulary of model 'llama'"),
        ({"scores": [0.0]}, "one entry for each of 262 tokens; got 1 entries"),
        ({"scores": [math.nan] * 262}, "finite numbers; got nan at index 0"),
        ({"scores": ["x"] * 262}, "finite numbers; got 'x' at index 0"),
    ],
)
def test_malformed_sentence_piece(change: dict[str, object], message: str) -> None:
    metadata = sentence_piece(PIECES) | {f"tokenizer.ggml.{key}": change[key] for key in change}
    kept = {key: value for key, value in metadata.items() if value is not None}
    with pytest.raises(GgufError, match=message):
        Tokenizer.from_metadata(kept)


def test_ranks_that_scores_do_not_give_are_refused() -> None:
    tied = (("a", -1.0), ("b", -2.0), ("ab", -3.0), ("ba", -3.0))
    with pytest.raises(GgufError, match=r"different scores; got 'ab' and 'ba' at -3\.0"):
        Tokenizer.from_metadata(sentence_piece(tied))
    with pytest.raises(GgufError, match="itself be a piece; got 'ac' without 'c'"):
        Tokenizer.from_metadata(sentence_piece((("a", -1.0), ("ac", -2.0))))


def test_arrays_of_numpy_numbers_are_read() -> None:
    metadata = byte_level((), eos_token_id=np.uint32(256))
    types = metadata["tokenizer.ggml.token_type"]
    metadata["tokenizer.ggml.token_type"] = np.array(types, dtype=np.int32)
    assert Tokenizer.from_metadata(metadata).eos_id == 256


def test_a_template_that_is_not_text_is_refused() -> None:
    metadata = byte_level(()) | {"tokenizer.chat_template": 5}
    with pytest.raises(GgufError, match="chat_template must be a string; got int"):
        Tokenizer.from_metadata(metadata)
