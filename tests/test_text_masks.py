"""Assistant-only loss masks, written out by hand: [[...]] is what must be supervised."""

import json
import re
from pathlib import Path

import pytest

from retrograd.errors import DataError, GgufError
from retrograd.text import IGNORED, ChatTemplate, Tokenizer, tokenize_chat, tokenize_completion
from tests import text_templates
from tests.text_vocabularies import CHATML, byte_level, sentence_piece

LLAMA3 = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
# Pairs that join across the seams between header, content and end.
MERGES = ("t|\n", "\n|H", "H|i", "\n|\n", " |H", " |Hi", "i|<")


def chat(*turns: str) -> list[dict[str, object]]:
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[turn[0]], "content": turn[2:]} for turn in turns]


def build(
    template: str, *, merges: tuple[str, ...] = (), control: tuple[str, ...] = CHATML
) -> Tokenizer:
    metadata = byte_level(merges, control, pre="llama-bpe", template=template, add_bos_token=False)
    begin = 256 + len(merges)
    metadata["tokenizer.ggml.bos_token_id"] = begin
    if control is LLAMA3:
        metadata["tokenizer.ggml.eos_token_id"] = begin + 1
        metadata["tokenizer.ggml.eot_token_id"] = begin + 4
    return Tokenizer.from_metadata(metadata)


def shown(tokenizer: Tokenizer, ids: list[int], labels: list[int]) -> str:
    """The text with [[...]] around each run of supervised tokens."""
    data, inside = b"", False
    for token, label in zip(ids, labels, strict=True):
        assert label in (IGNORED, token)
        if inside != (label != IGNORED):
            data += b"]]" if inside else b"[["
            inside = not inside
        data += tokenizer.token_bytes(token)
    return (data + b"]]" * inside).decode()


def check(tokenizer: Tokenizer, messages: list[dict[str, object]], expected: str) -> None:
    example = tokenize_chat(messages, tokenizer)
    assert shown(tokenizer, example.token_ids, example.labels) == expected
    text = re.sub(r"\[\[|\]\]", "", expected)
    assert example.token_ids == tokenizer.encode(text)
    assert ChatTemplate.of(tokenizer).render(messages) == text


@pytest.mark.parametrize("merges", [(), MERGES])
def test_smollm2(merges: tuple[str, ...]) -> None:
    check(
        build(text_templates.SMOLLM2, merges=merges),
        chat("u:Hi", "a:Hi you", "u:Bye", "a:Hi 👍🏽 日本 e\u0301"),
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n[[Hi you<|im_end|>]]\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n[[Hi 👍🏽 日本 e\u0301<|im_end|>]]\n",
    )


@pytest.mark.parametrize("merges", [(), MERGES])
def test_qwen2_5(merges: tuple[str, ...]) -> None:
    tokenizer = build(text_templates.QWEN2_5, merges=merges)
    check(
        tokenizer,
        chat("s:Be brief.", "u:Hi", "a:Yes", "a:And no"),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n[[Yes<|im_end|>]]\n<|im_start|>assistant\n[[And no<|im_end|>]]\n",
    )
    # The template cannot render what comes before the first message; the stand-in places it.
    check(
        tokenizer,
        chat("a:Hi"),
        "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>assistant\n[[Hi<|im_end|>]]\n",
    )


@pytest.mark.parametrize("merges", [(), MERGES])
def test_llama3(merges: tuple[str, ...]) -> None:
    check(
        build(text_templates.LLAMA3, merges=merges, control=LLAMA3),
        chat("u: Hi ", "a: Hi there \n", "u:Bye", "a:Bye"),
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n[[Hi there<|eot_id|>]]"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n[[Bye<|eot_id|>]]",
    )


def test_a_template_that_drops_earlier_thinking() -> None:
    check(
        build(text_templates.THINKING),
        chat("u:1+1?", "a:<think>easy</think>\n\nTwo", "u:2+2?", "a:<think>hm</think>\n\nFour"),
        "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n[[Two<|im_end|>]]\n"
        "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
        "[[<think>hm</think>\n\nFour<|im_end|>]]\n",
    )
    check(
        build(text_templates.THINKING),
        chat("u:1+1?", "a:Two"),
        "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
        "[[<think></think>\n\nTwo<|im_end|>]]\n",
    )


def test_a_template_without_header_or_generation_prompt() -> None:
    check(
        build(text_templates.INSTRUCT, control=LLAMA3),
        chat("u:Hi", "a:Hello", "u:Bye", "a:Bye"),
        "<|begin_of_text|>[INST] Hi [/INST][[ Hello<|end_of_text|>]]"
        "[INST] Bye [/INST][[ Bye<|end_of_text|>]]",
    )


def test_a_header_is_not_learnt_where_the_generation_prompt_is_ignored() -> None:
    check(
        build(text_templates.DEAF),
        chat("u:Hi", "a:Yes", "u:Bye", "a:Bye"),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[Yes<|im_end|>]]\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[[Bye<|im_end|>]]\n",
    )


def test_generation_blocks_are_taken_at_their_word_with_the_end_token() -> None:
    check(
        build(text_templates.MARKED),
        chat("u:Hi", "a:yes 👍🏽", "u:Bye", "a:bye"),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[[YES 👍🏽<|im_end|>]]\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[[BYE<|im_end|>]]\n",
    )


def test_a_token_belongs_to_the_stretch_in_which_it_starts() -> None:
    # "]: H" begins in the header and reaches into the answer, so it is not supervised.
    template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}"
        "{{ '<|im_end|>' if m.role == 'assistant' else '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    tokenizer = build(template, merges=(" |H", "i|!"))
    example = tokenize_chat(chat("u:Hi!", "a:Hi!"), tokenizer)
    expected = "user: Hi!\nassistant: H[[i!<|im_end|>]]"
    assert shown(tokenizer, example.token_ids, example.labels) == expected


def test_labels_by_number() -> None:
    tokenizer = build(text_templates.DEAF)
    example = tokenize_chat(chat("u:A", "a:B"), tokenizer, origin="x.jsonl:3")
    start, stop, newline = 257, 258, 10
    head = [start, *b"user\nA", stop, newline, start, *b"assistant\n"]
    assert example.token_ids == [*head, ord("B"), stop, newline]
    assert example.labels == [IGNORED] * len(head) + [ord("B"), stop, IGNORED]
    assert example.n_supervised == 2
    assert example.origin == "x.jsonl:3"


def test_the_begin_token_is_put_first_where_the_template_leaves_it_out() -> None:
    metadata = byte_level((), template=text_templates.DEAF, bos_token_id=256, add_bos_token=True)
    tokenizer = Tokenizer.from_metadata(metadata)
    example = tokenize_chat(chat("u:A", "a:B"), tokenizer)
    assert example.token_ids[:2] == [256, 257]
    assert example.labels[-3:] == [ord("B"), 258, IGNORED]


def test_sentence_piece_conversation() -> None:
    pieces = [("▁", -1.0), *((c, -2.0) for c in "INSTHaelo/[]"), ("▁H", -3.0)]
    metadata = sentence_piece(pieces) | {"tokenizer.chat_template": text_templates.INSTRUCT}
    tokenizer = Tokenizer.from_metadata(metadata)
    example = tokenize_chat(chat("u:a", "a:Hello"), tokenizer)
    learnt = [tokenizer.token_text(t) for t in example.labels if t != IGNORED]
    assert learnt == ["▁H", "e", "l", "l", "o", "</s>"]


def test_awkward_answers_are_learnt_whole() -> None:
    awkward: list[str] = json.loads(
        (Path(__file__).parent / "data" / "awkward_strings.json").read_text(encoding="utf-8")
    )
    tokenizer = build(text_templates.DEAF, merges=MERGES)
    for text in awkward:
        if not text.strip() or len(text) > 150 or tokenizer.control_token_in(text):
            continue
        example = tokenize_chat(chat("u:Q", f"a:{text}"), tokenizer)
        learnt = [label for label in example.labels if label != IGNORED]
        answer = tokenizer.decode(learnt, skip_special=False)
        # A line end that begins the answer joins the header's line end, and goes with it.
        assert answer == f"{text.removeprefix(chr(10))}<|im_end|>"


@pytest.mark.parametrize(
    ("template", "messages", "message"),
    [
        ("OPAQUE", chat("u:Hi", "a:Yes", "u:q"), r"message 1, which neither prefixes nor a stand"),
        ("COUNTED", chat("u:Hi", "a:Yes"), r"message 1, which neither prefixes nor a stand"),
        ("ENDLESS", chat("u:Hi", "a:Yes"), "must end with an end-of-turn token.*got '.*Yes"),
        ("DEAF", chat("u:Hi"), "at least one assistant message.*got 1 messages without one"),
        ("DEAF", [], "messages must not be empty"),
        ("DEAF", ["Hi"], "role and content; got str in message 0"),
        ("DEAF", [{"content": "x"}], "role must be a non-empty string; got None in message 0"),
        ("DEAF", [{"role": "user"}], "content must be a string; got NoneType in message 0"),
        ("DEAF", [{"role": "user", "content": ["x"]}], "content must be a string; got list"),
        ("DEAF", chat("u:Hi", "a:x<|im_end|>y"), "control token.*'<|im_end|>' in message 1"),
    ],
)
def test_refusals(template: str, messages: list[dict[str, object]], message: str) -> None:
    tokenizer = build(getattr(text_templates, template))
    with pytest.raises(DataError, match=rf"\[rows.jsonl:7\] .*{message}"):
        tokenize_chat(messages, tokenizer, origin="rows.jsonl:7")


def test_a_model_without_a_template_is_refused() -> None:
    tokenizer = Tokenizer.from_metadata(byte_level(()))
    with pytest.raises(GgufError, match=r"needs the model's chat template"):
        tokenize_chat(chat("u:Hi", "a:Yes"), tokenizer)


def test_completion() -> None:
    tokenizer = build(text_templates.DEAF, merges=MERGES)
    cases = [
        ("Say:", " Hi", "Say:[[ Hi<|endoftext|>]]"),
        ("Say: ", "Hi", "Say: Hi[[<|endoftext|>]]"),
        ("<|im_start|>x\n", "yes<|im_end|>", "<|im_start|>x\n[[yes<|im_end|>]]"),
        ("", "ab", "a[[b<|endoftext|>]]"),
        ("日", "本👍🏽", "日[[本👍🏽<|endoftext|>]]"),
    ]
    for prompt, completion, expected in cases:
        example = tokenize_completion(prompt, completion, tokenizer)
        assert shown(tokenizer, example.token_ids, example.labels) == expected


def test_completion_refusals() -> None:
    tokenizer = build(text_templates.DEAF)
    with pytest.raises(DataError, match=r"\[f:2\] a completion must not be empty"):
        tokenize_completion("x", "", tokenizer, origin="f:2")
    bare = Tokenizer.from_metadata(byte_level((), ()))
    with pytest.raises(DataError, match="must end with a token that stops generation"):
        tokenize_completion("x", "y", bare)
    with pytest.raises(DataError, match="at least one supervised token after its first"):
        tokenize_completion("", "<|im_end|>", tokenizer, origin="f:3")
