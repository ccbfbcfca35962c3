"""Small vocabularies for tests of ``retrograd.text``, small enough to tokenize by hand.

Byte-level: id b is byte b, then the merged tokens in order, then the control tokens.
"""

from collections.abc import Sequence

from retrograd.text.byte_level import byte_to_character

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def byte_level(
    merges: Sequence[str] = (),
    control: Sequence[str] = CHATML,
    *,
    user_defined: Sequence[str] = (),
    pre: str = "gpt-2",
    template: str | None = None,
    **more: object,
) -> dict[str, object]:
    """Metadata of a byte-level vocabulary; a merge is written with plain characters, as "a b"."""
    table = byte_to_character()
    spelled = [
        " ".join("".join(table[b] for b in part.encode()) for part in merge.split("|"))
        for merge in merges
    ]
    merged = [merge.replace(" ", "") for merge in spelled]
    tokens = [*(table[b] for b in range(256)), *merged, *control, *user_defined]
    n_plain = 256 + len(merged)
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": (
            [NORMAL] * n_plain + [CONTROL] * len(control) + [USER_DEFINED] * len(user_defined)
        ),
        "tokenizer.ggml.merges": spelled,
    }
    if "<|endoftext|>" in tokens:
        metadata["tokenizer.ggml.eos_token_id"] = tokens.index("<|endoftext|>")
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in more.items()}


def sentence_piece(
    pieces: Sequence[tuple[str, float]], *, n_bytes: int = 256, **more: object
) -> dict[str, object]:
    """Metadata of a SentencePiece vocabulary: <unk>, <s>, </s>, byte tokens, then the pieces."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(n_bytes))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*tokens, *(piece for piece, _ in pieces)],
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL]
        + [BYTE] * n_bytes
        + [NORMAL] * len(pieces),
        "tokenizer.ggml.scores": [0.0] * len(tokens) + [score for _, score in pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    } | {f"tokenizer.ggml.{key}": value for key, value in more.items()}
