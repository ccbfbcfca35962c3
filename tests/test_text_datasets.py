"""Data files: kinds, line numbers, lengths and the order of rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrograd.errors import ConfigError, DataError
from retrograd.philox import Purpose, stream_words
from retrograd.text import IGNORED, Tokenizer, load_examples, shuffled
from tests import text_templates
from tests.text_vocabularies import byte_level

TOKENIZER = Tokenizer.from_metadata(byte_level((), template=text_templates.DEAF, bos_token_id=256))


def chat_row(answer: str = "B", **more: object) -> str:
    messages = [{"role": "user", "content": "A"}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, **more}, ensure_ascii=False)


def completion_row(prompt: str = "ab", completion: str = "cd") -> str:
    return json.dumps({"prompt": prompt, "completion": completion})


def write(folder: Path, content: str | bytes, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def test_chat_rows(tmp_path: Path) -> None:
    path = write(tmp_path, f"{chat_row('B')}\n\n{chat_row('日', id=7)}\n")
    data = load_examples(path, TOKENIZER, max_tokens=99)
    assert (data.kind, len(data), data.n_dropped, data.n_truncated) == ("chat", 2, 0, 0)
    assert [e.origin for e in data.examples] == ["rows.jsonl:1", "rows.jsonl:3"]
    assert [e.n_supervised for e in data.examples] == [2, 4]
    assert data.n_supervised == 6
    assert data.n_tokens == sum(len(e.token_ids) for e in data.examples) == 23 + 25


def test_tools_of_a_row_reach_the_template(tmp_path: Path) -> None:
    template = "{% if tools %}{{ tools | tojson }}{% endif %}" + text_templates.DEAF
    tokenizer = Tokenizer.from_metadata(byte_level((), template=template))
    path = write(tmp_path, f"{chat_row(tools=[{'name': 'clock'}])}\n{chat_row()}\n")
    texts = [
        tokenizer.decode(e.token_ids)
        for e in load_examples(path, tokenizer, max_tokens=99).examples
    ]
    assert texts == ['[{"name": "clock"}]user\nA\nassistant\nB\n', "user\nA\nassistant\nB\n"]


def test_completion_rows(tmp_path: Path) -> None:
    data = load_examples(write(tmp_path, completion_row()), TOKENIZER, max_tokens=99)
    assert data.kind == "completion"
    assert data.examples[0].token_ids == [*b"abcd", 256]
    assert data.examples[0].labels == [IGNORED, IGNORED, *b"cd", 256]


def test_plain_text_is_cut_into_windows_that_learn_each_token_once(tmp_path: Path) -> None:
    path = write(tmp_path, "abcdefgh <|im_end|>"[:10], "story.txt")
    data = load_examples(path, TOKENIZER, max_tokens=4)
    assert data.kind == "text"
    assert [bytes(e.token_ids) for e in data.examples] == [b"abcd", b"defg", b"gh <"]
    assert [bytes(e.labels[1:]) for e in data.examples] == [b"bcd", b"efg", b"h <"]
    assert all(e.labels[0] == IGNORED for e in data.examples)
    assert data.n_supervised == 9


def test_control_tokens_in_plain_text_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a<|im_end|>", "story.txt")
    example = load_examples(path, TOKENIZER, max_tokens=99).examples[0]
    assert bytes(example.token_ids) == b"a<|im_end|>"


def test_marks_line_ends_and_separators_of_a_file(tmp_path: Path) -> None:
    lines = [chat_row(), "", chat_row("x\u2028y\u0085z"), ""]
    rows = b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    data = load_examples(write(tmp_path, rows), TOKENIZER, max_tokens=99)
    assert [e.origin for e in data.examples] == ["rows.jsonl:1", "rows.jsonl:3"]
    text = load_examples(write(tmp_path, b"a\r\nb\r\n", "t.txt"), TOKENIZER, max_tokens=9)
    assert bytes(text.examples[0].token_ids) == b"a\nb\n"


def test_kind_is_found_by_content_when_the_name_does_not_say(tmp_path: Path) -> None:
    rows = write(tmp_path, f"\n{chat_row()}\n", "rows.data")
    assert load_examples(rows, TOKENIZER, max_tokens=99).kind == "chat"
    assert load_examples(rows, TOKENIZER, max_tokens=99, kind="text").kind == "text"
    code = write(tmp_path, "{not json\n", "code.c")
    assert load_examples(code, TOKENIZER, max_tokens=99).kind == "text"


def test_all_bad_lines_are_reported_together(tmp_path: Path) -> None:
    lines = [
        chat_row(),
        "{broken",
        "[1]",
        '{"text": "x"}',
        completion_row(),
        '{"prompt": "x"}',
        chat_row("C"),
    ]
    with pytest.raises(DataError) as caught:
        load_examples(write(tmp_path, "\n".join(lines)), TOKENIZER, max_tokens=99)
    message = str(caught.value)
    assert "5 bad lines" in message
    reasons = [line.partition("rows.jsonl:")[2] for line in message.splitlines()[1:-1]]
    assert [reason.partition(":")[0] for reason in reasons] == ["2", "3", "4", "5", "6"]
    assert reasons[0] == (
        "2: a line must be JSON; got Expecting property name enclosed in double quotes at column 2"
    )
    assert reasons[1] == "3: a line must be a JSON object; got list"
    assert reasons[2].endswith(
        """keys must be "messages", or "prompt" and "completion"; got 'text'"""
    )
    assert reasons[3].endswith("rows of a file must be of one kind, here chat; got completion")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"messages": "x"}', "messages must be a list; got str"),
        ('{"messages": [], "tools": 1}', "tools must be a list; got int"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "at least one assistant message"),
        (chat_row("x<|im_end|>"), "must not spell out a control token"),
        (chat_row("LONE").replace("LONE", r"\ud83d"), "lone surrogate"),
        (json.dumps({"messages": [], "prompt": "", "completion": ""}), "keys must be"),
        ("[" * 100_000, "a line must be JSON; got"),
    ],
)
def test_bad_rows(tmp_path: Path, row: str, reason: str) -> None:
    good = chat_row()
    with pytest.raises(DataError) as caught:
        load_examples(write(tmp_path, f"{good}\n{row}\n{good}\n"), TOKENIZER, max_tokens=99)
    assert "1 bad line:" in str(caught.value)
    assert "rows.jsonl:2: " in str(caught.value)
    assert reason in str(caught.value)


def test_a_long_list_of_bad_lines_is_cut_and_counted(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_examples(write(tmp_path, "x\n" * 50), TOKENIZER, max_tokens=99)
    lines = str(caught.value).splitlines()
    assert "50 bad lines" in lines[0]
    assert lines[21] == "  and 30 more"
    assert len(lines) == 23


def test_rows_longer_than_max_tokens(tmp_path: Path) -> None:
    rows = [("ab", "c"), ("ab", "cdefgh"), ("ab", "cd")]
    path = write(tmp_path, "\n".join(completion_row(*row) for row in rows))
    with pytest.raises(DataError, match=r"rows.jsonl:2: a row must have at most 5 tokens; got 9"):
        load_examples(path, TOKENIZER, max_tokens=5)
    dropped = load_examples(path, TOKENIZER, max_tokens=5, too_long="drop")
    assert [len(e.token_ids) for e in dropped.examples] == [4, 5]
    assert (dropped.n_dropped, dropped.n_truncated) == (1, 0)
    cut = load_examples(path, TOKENIZER, max_tokens=5, too_long="truncate")
    assert cut.examples[1].token_ids == [*b"abcde"]
    assert cut.examples[1].labels == [IGNORED, IGNORED, *b"cde"]
    assert (cut.n_dropped, cut.n_truncated) == (0, 1)
    with pytest.raises(DataError, match="first 2 tokens must hold a supervised one"):
        load_examples(path, TOKENIZER, max_tokens=2, too_long="truncate")
    with pytest.raises(DataError, match="at least one row to train on"):
        load_examples(path, TOKENIZER, max_tokens=2, too_long="drop")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be readable; got .*gone.jsonl: No such file"):
        load_examples(tmp_path / "gone.jsonl", TOKENIZER, max_tokens=9)
    with pytest.raises(DataError, match=r"must be UTF-8; got .* in UTF-16"):
        load_examples(write(tmp_path, "x".encode("utf-16")), TOKENIZER, max_tokens=9)
    with pytest.raises(
        DataError, match=r"rows.jsonl:2: text must be UTF-8; got byte 0xFF at column 3"
    ):
        load_examples(write(tmp_path, b"ok\nab\xff\n"), TOKENIZER, max_tokens=9)
    for empty in ("", "\n \n"):
        with pytest.raises(DataError, match="at least one row to train on"):
            load_examples(write(tmp_path, empty), TOKENIZER, max_tokens=9)
    with pytest.raises(DataError, match="at least one row to train on"):
        load_examples(write(tmp_path, "a", "t.txt"), TOKENIZER, max_tokens=9)


def test_text_with_a_character_that_has_no_token(tmp_path: Path) -> None:
    metadata = byte_level(())
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokens[4] = "unreachable"
    tokenizer = Tokenizer.from_metadata(metadata)
    with pytest.raises(DataError, match=r"\[t.txt:2\] each character must have a token.*U\+0004"):
        load_examples(write(tmp_path, "a\nb\x04", "t.txt"), tokenizer, max_tokens=9)


def test_arguments_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, chat_row())
    with pytest.raises(ConfigError, match="max_tokens must be at least 2; got 1"):
        load_examples(path, TOKENIZER, max_tokens=1)
    with pytest.raises(ConfigError, match="kind must be one of auto, chat, completion, text"):
        load_examples(path, TOKENIZER, max_tokens=9, kind="table")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="too_long must be one of refuse, drop, truncate"):
        load_examples(path, TOKENIZER, max_tokens=9, too_long="cut")  # pyright: ignore[reportArgumentType]


def test_order_is_a_pure_function_of_seed_epoch_and_length(tmp_path: Path) -> None:
    data = load_examples(write(tmp_path, "\n".join([chat_row()] * 9)), TOKENIZER, max_tokens=99)
    words = stream_words(5, Purpose.SHUFFLE, 2, "rows", 18).tolist()
    keys = [words[2 * i] << 32 | words[2 * i + 1] for i in range(9)]
    assert data.order(5, 2).tolist() == sorted(range(9), key=keys.__getitem__)
    assert data.order(5, 2).dtype == np.int64


def test_orders_of_epochs_are_permutations_that_differ() -> None:
    orders = [shuffled(100, seed, epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert shuffled(0, 0, 0).tolist() == []
    # Each row comes first about equally often: 4,000 draws over 8 rows, 500 +- 6 sigma (126).
    firsts = np.bincount([shuffled(8, 3, epoch)[0] for epoch in range(4000)], minlength=8)
    assert firsts.min() > 374
    assert firsts.max() < 626
