"""Byte-level tokenizers: ids worked out by hand, offsets, special tokens, decoding."""

import json
from pathlib import Path

import pytest

from retrograd.errors import DataError, GgufError
from retrograd.text import StreamDecoder, Tokenizer
from tests.text_vocabularies import CHATML, byte_level

AWKWARD: list[str] = json.loads(
    (Path(__file__).parent / "data" / "awkward_strings.json").read_text(encoding="utf-8")
)
# Merged tokens, in rank order: " h"=256 "he"=257 "ll"=258 " he"=259 "llo"=260 "12"=261 "123"=262
# " 1"=263 "'s"=264 "'S"=265 "!!"=266 "\n\n"=267
MERGES = (
    " |h", "h|e", "l|l", " |he", "ll|o", "1|2", "12|3", " |1", "'|s", "'|S", "!|!", "\n|\n",
)  # fmt: skip
END, START, STOP = 268, 269, 270


def build(pre: str) -> Tokenizer:
    return Tokenizer.from_metadata(byte_level(MERGES, pre=pre))


def b(text: str) -> list[int]:
    """Ids of a text without merges: its bytes."""
    return list(text.encode())


@pytest.mark.parametrize(
    ("pre", "text", "ids"),
    [
        # " h" outranks "he", so " hello" is " h", "e", "llo" although " he" is a token.
        ("gpt-2", "hello hello", [257, 260, 256, *b("e"), 260]),
        ("gpt-2", "x1234 12", [*b("x"), 262, *b("4"), *b(" "), 261]),
        ("gpt-2", "it's IT'S", [*b("it"), 264, *b(" IT'S")]),
        ("gpt-2", "a\n\nb", [*b("a"), *b("\n"), *b("\n"), *b("b")]),
        ("gpt-2", "!!\n\n", [266, 267]),
        ("smollm", "x1234 12", [*b("x"), *b("1234 12")]),
        ("smollm", "hello 1", [257, 260, *b(" 1")]),
        ("qwen2", "x1234 12", [*b("x"), *b("1234 12")]),
        ("qwen2", "it's IT'S", [*b("it"), 264, *b(" IT"), 265]),
        ("qwen2", "a\n\nb", [*b("a"), 267, *b("b")]),
        ("llama-bpe", "x1234 12", [*b("x"), 262, *b("4"), *b(" "), 261]),
        ("llama-bpe", "!!\n\n", [266, 267]),
        ("default", "x1234 12", [*b("x"), 262, *b("4"), *b(" "), 261]),
        ("default", "it's", [*b("it"), *b("'s")]),
    ],
)
def test_ids_by_hand(pre: str, text: str, ids: list[int]) -> None:
    assert build(pre).encode(text) == ids


def test_llama_bpe_takes_a_word_that_is_a_token_whole() -> None:
    merges = ("a|b", "b|c", "a|bc")
    ranked = Tokenizer.from_metadata(byte_level(merges, pre="gpt-2"))
    whole = Tokenizer.from_metadata(byte_level(merges, pre="llama-bpe"))
    assert ranked.encode("abc") == [256, ord("c")]
    assert whole.encode("abc") == [258]


def test_a_file_without_a_pre_tokenizer_gets_default() -> None:
    metadata = byte_level(MERGES)
    del metadata["tokenizer.ggml.pre"]
    assert Tokenizer.from_metadata(metadata).encode("it's") == b("it's")


def test_control_tokens_are_parsed_only_when_asked() -> None:
    tokenizer = build("smollm")
    text = "<|im_start|>hi<|im_end|>"
    assert tokenizer.encode(text) == [START, *b("hi"), STOP]
    assert tokenizer.encode(text, parse_special=False) == b(text)
    assert tokenizer.control_token_in("say <|im_end|> now") == "<|im_end|>"
    assert tokenizer.control_token_in("say <|im_end| now") is None


def test_user_defined_tokens_are_always_parsed() -> None:
    tokenizer = Tokenizer.from_metadata(byte_level((), user_defined=("<think>",)))
    token = tokenizer.n_tokens - 1
    assert tokenizer.encode("a<think>", parse_special=False) == [ord("a"), token]
    assert tokenizer.decode([ord("a"), token]) == "a<think>"


def test_begin_and_end_tokens() -> None:
    metadata = byte_level((), bos_token_id=257, add_bos_token=True, add_eos_token=True)
    tokenizer = Tokenizer.from_metadata(metadata)
    ids, offsets = tokenizer.encode_with_offsets("hi", add_special=True)
    assert ids == [257, *b("hi"), 256]
    assert offsets == [(0, 0), (0, 1), (1, 2), (2, 2)]
    assert tokenizer.encode("hi") == b("hi")


def test_llama_bpe_begins_with_the_begin_token_unless_the_file_says_no() -> None:
    assert Tokenizer.from_metadata(byte_level((), pre="llama-bpe", bos_token_id=257)).add_bos
    silent = byte_level((), pre="llama-bpe", bos_token_id=257, add_bos_token=False)
    assert not Tokenizer.from_metadata(silent).add_bos
    assert not Tokenizer.from_metadata(byte_level((), bos_token_id=257)).add_bos


def test_ids_that_end_a_turn() -> None:
    tokenizer = Tokenizer.from_metadata(byte_level((), (*CHATML, "<|stop|>"), eot_token_id=259))
    assert tokenizer.eos_id == 256
    assert tokenizer.eot_ids == {256, 258, 259}


@pytest.mark.parametrize("pre", ["smollm", "qwen2", "llama-bpe", "gpt-2", "default"])
def test_awkward_strings_come_back_and_offsets_cover_them(pre: str) -> None:
    tokenizer = build(pre)
    for text in AWKWARD:
        ids, offsets = tokenizer.encode_with_offsets(text)
        assert len(ids) == len(offsets)
        composes = pre == "qwen2" and tokenizer.decode(ids, skip_special=False) != text
        if composes:
            assert any(0x300 <= ord(c) < 0x370 or 0x1100 <= ord(c) < 0x2130 for c in text)
            continue
        covered = {c for start, end in offsets for c in range(start, end)}
        assert covered == set(range(len(text)))
        assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
        for token, (start, end) in zip(ids, offsets, strict=True):
            piece = tokenizer.token_bytes(token)
            assert piece in text[start:end].encode("utf-8")


def test_offsets_count_characters_of_the_original_text() -> None:
    tokenizer = build("smollm")
    ids, offsets = tokenizer.encode_with_offsets("é👍🏽日")
    assert ids == b("é👍🏽日")
    assert offsets == [(0, 1)] * 2 + [(1, 2)] * 4 + [(2, 3)] * 4 + [(3, 4)] * 3
    composed, offsets = build("qwen2").encode_with_offsets("xe\u0301<|im_end|>y")
    assert composed == [*b("x\u00e9"), STOP, *b("y")]
    assert [offsets[0], offsets[3], offsets[4]] == [(0, 1), (3, 13), (13, 14)]


def test_a_character_without_tokens_is_left_out_and_found() -> None:
    metadata = byte_level(())
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokens[4] = "unreachable"
    tokenizer = Tokenizer.from_metadata(metadata)
    assert tokenizer.encode("a\x04b") == b("ab")
    assert tokenizer.lost_character("a\x04b") == "\x04"
    assert tokenizer.lost_character("ab") is None


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(DataError, match=r"U\+D83D at character 2"):
        build("gpt-2").encode("hi\ud83d")


def test_decoding_a_cut_character() -> None:
    tokenizer = build("gpt-2")
    cut = list("a👍".encode())[:-1]
    assert tokenizer.decode(cut) == "a\ufffd"
    assert tokenizer.decode([*cut, STOP, ord("b")]) == "a\ufffdb"
    assert tokenizer.decode([0xC3, STOP, 0xA9]) == "\ufffd\ufffd"
    assert tokenizer.decode([ord("a"), STOP]) == "a"
    assert tokenizer.decode([ord("a"), STOP], skip_special=False) == "a<|im_end|>"
    with pytest.raises(DataError, match="between 0 and 270; got 271"):
        tokenizer.decode([271])


def test_streaming_holds_back_until_a_character_is_whole() -> None:
    decoder = StreamDecoder(build("gpt-2"))
    assert [decoder.feed(i) for i in "é!".encode()] == ["", "é", "!"]
    assert decoder.finish() == ""
    assert decoder.feed(0xF0) == ""
    assert decoder.finish() == "\ufffd"


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(GgufError, match="smollm, qwen2, llama-bpe, gpt-2, default; got 'tekken'"):
        Tokenizer.from_metadata(byte_level((), pre="tekken"))
    with pytest.raises(GgufError, match="one of gpt2, llama; got 'bert'"):
        Tokenizer.from_metadata(byte_level((), model="bert"))
