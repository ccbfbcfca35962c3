"""SentencePiece vocabularies against a plain implementation of merging by score."""

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from retrograd.errors import DataError
from retrograd.text import StreamDecoder, Tokenizer
from tests.text_vocabularies import sentence_piece

SPACE = "\u2581"
# Ids start at 259, after <unk>, <s>, </s> and 256 byte tokens.
PIECES = (
    (SPACE, -10.0), ("a", -11.0), ("b", -12.0), ("c", -13.0),
    ("ab", -3.0), ("bc", -2.0), ("abc", -1.0), (SPACE + "a", -4.0), (SPACE + "abc", -5.0),
    (SPACE * 2, -1e9), (SPACE * 3, -1e9), (SPACE * 4, -1e9),
)  # fmt: skip
S, A, B, C, AB, BC, ABC, SA, SABC, SS, SSS, SSSS = range(259, 271)


def merged_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """Join the neighbours whose text has the highest score, the leftmost first, until none has."""
    symbols = list(text)
    while True:
        candidates = [
            (-scores[left + right], i)
            for i, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in scores
        ]
        if not candidates:
            return symbols
        _, i = min(candidates)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_metadata(sentence_piece(PIECES))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        # "bc" outranks "ab" and "▁a"; then "abc" is in reach, then "▁abc".
        ("abc", [SABC]),
        ("ab", [S, AB]),
        ("a", [SA]),
        ("c", [S, C]),
        (" a", [S, SA]),
        ("a    b", [SA, SSSS, B]),
        ("b     b", [S, B, SSSS, S, B]),
        ("a\n", [SA, 3 + 0x0A]),
        ("é", [S, 3 + 0xC3, 3 + 0xA9]),
        ("a</s>b", [SA, 2, S, B]),
        ("<s>", [1]),
    ],
)
def test_ids_by_hand(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text) == ids
    assert tokenizer.decode(ids, skip_special=False) == text


def test_control_tokens_as_text(tokenizer: Tokenizer) -> None:
    expected = [S, *(3 + ord(c) for c in "<s>")]
    assert tokenizer.encode("<s>", parse_special=False) == expected


def test_begin_token_is_the_default(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a", add_special=True) == [1, SA]
    assert tokenizer.eot_ids == {2}


def test_without_a_space_prefix() -> None:
    plain = Tokenizer.from_metadata(sentence_piece(PIECES, add_space_prefix=False))
    assert plain.encode("abc") == [ABC]
    assert plain.encode(" abc") == [SABC]
    assert plain.decode([SABC]) == " abc"


@settings(max_examples=150, deadline=None)
@given(
    ranks=st.permutations(
        ["ab", "ba", "aa", "bb", "aab", "aba", "bab", "abab", SPACE + "a", "b" + SPACE, "aaa"]
    ),
    text=st.text(alphabet="ab ", max_size=40),
)
def test_merging_by_score_for_any_order_of_scores(ranks: list[str], text: str) -> None:
    runs = [SPACE * n for n in (2, 3, 4, 5, 8)]
    pieces = [(c, -100.0) for c in ("a", "b", SPACE)]
    pieces += [(piece, -float(i)) for i, piece in enumerate(ranks)] + [(r, -1e9) for r in runs]
    built = Tokenizer.from_metadata(sentence_piece(pieces, add_space_prefix=False))
    expected = merged_by_score(text.replace(" ", SPACE), dict(pieces))
    assert [built.token_text(i) for i in built.encode(text)] == expected


def test_offsets_of_the_space_prefix(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_with_offsets("ab a") == ([S, AB, SA], [(0, 1), (0, 2), (2, 4)])
    ids, offsets = tokenizer.encode_with_offsets("a</s>é")
    assert ids == [SA, 2, S, 3 + 0xC3, 3 + 0xA9]
    assert offsets == [(0, 1), (1, 5), (5, 6), (5, 6), (5, 6)]


def test_streaming_after_a_prompt(tokenizer: Tokenizer) -> None:
    after_text = StreamDecoder(tokenizer, after=[SA])
    assert [after_text.feed(i) for i in (SA, SABC)] == [" a", " abc"]
    after_header = StreamDecoder(tokenizer, after=[SA, 2])
    assert [after_header.feed(i) for i in (SA, SABC, 2, SA)] == ["a", " abc", "", "a"]


def test_characters_without_piece_or_bytes_are_found() -> None:
    bare = Tokenizer.from_metadata(sentence_piece(PIECES, n_bytes=0))
    assert bare.lost_character("a b") is None
    assert bare.lost_character("a é") == "é"
    assert bare.encode("é") == [256 + 3 - 256, 0]
    with pytest.raises(DataError, match="between 0 and 14"):
        bare.token_text(15)
