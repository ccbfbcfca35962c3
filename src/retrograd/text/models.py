"""From a checked vocabulary to a model of the ``tokenizers`` library."""

from typing import TYPE_CHECKING

from retrograd.errors import GgufError
from retrograd.text.byte_level import byte_to_character
from retrograd.text.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from retrograd.text.vocabulary import TokenType, Vocabulary

if TYPE_CHECKING:
    from tokenizers.models import BPE
    from tokenizers.normalizers import Normalizer
    from tokenizers.pre_tokenizers import PreTokenizer as NativePreTokenizer

SPACE = "\u2581"
"""How SentencePiece writes a space."""

# Bytes that no UTF-8 text contains; a vocabulary may leave them out.
_NEVER_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


def pre_tokenizer_row(vocabulary: Vocabulary) -> PreTokenizer:
    """The row of a byte-level vocabulary; a file that names none gets ``default``.

    Raises:
        GgufError: the name has no row.
    """
    name = vocabulary.pre or "default"
    if name not in PRE_TOKENIZERS:
        raise GgufError(
            "tokenizer",
            f"the pre-tokenizer must be one of {', '.join(PRE_TOKENIZERS)}",
            repr(name[:80]),
            "use a model with one of these; another would cut text differently than in training",
        )
    return PRE_TOKENIZERS[name]


def byte_level_model(vocabulary: Vocabulary) -> "BPE":
    """BPE over the byte alphabet, with the file's merges."""
    from tokenizers.models import BPE

    return BPE(
        vocab={token: i for i, token in enumerate(vocabulary.tokens)},
        merges=list(vocabulary.merges),
        ignore_merges=pre_tokenizer_row(vocabulary).ignore_merges,
    )


def byte_level_steps(row: PreTokenizer) -> "tuple[Normalizer | None, NativePreTokenizer]":
    """The normalizer and the pre-tokenizer of one row."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    splits = [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in row.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return (
        normalizers.NFC() if row.compose else None,
        pre_tokenizers.Sequence([*splits, to_bytes]),
    )


def missing_bytes(vocabulary: Vocabulary) -> frozenset[int]:
    """Bytes of UTF-8 text for which the vocabulary has no token."""
    tokens = set(vocabulary.tokens)
    if vocabulary.model == "llama":
        absent = {byte for byte in range(256) if f"<0x{byte:02X}>" not in tokens}
    else:
        absent = {byte for byte, symbol in byte_to_character().items() if symbol not in tokens}
    return frozenset(absent - _NEVER_IN_UTF8)


def whole_characters(vocabulary: Vocabulary) -> frozenset[str]:
    """Characters that are pieces of a SentencePiece vocabulary and so need no byte tokens."""
    if vocabulary.model != "llama":
        return frozenset()
    pairs = zip(vocabulary.tokens, vocabulary.types, strict=True)
    pieces = {token for token, kind in pairs if len(token) == 1 and _takes_part(token, kind)}
    return frozenset(pieces | {" "} if SPACE in pieces else pieces)


def sentence_piece_model(vocabulary: Vocabulary) -> "BPE":
    """SentencePiece's merging by score, written as BPE ranks.

    SentencePiece joins, again and again, the neighbours whose joined text is the piece with the
    highest score, the leftmost first among equals. Each way to split a piece in two other pieces
    therefore becomes a merge, ranked by the score of the piece. Control, unknown, unused and byte
    tokens take no part: text alone never produces them. A character without a piece becomes its
    bytes.

    Raises:
        GgufError: two pieces share a score and are not runs of one character, or a piece holds a
            character that is not itself a piece; ranks cannot express either.
    """
    from tokenizers.models import BPE

    pieces = {
        token: vocabulary.scores[i]
        for i, token in enumerate(vocabulary.tokens)
        if _takes_part(token, vocabulary.types[i])
    }
    splits = {piece: _splits(piece, pieces) for piece in pieces if len(piece) > 1}
    _check_ranks(pieces, splits)
    # Among runs of one character, which may share a score, "the leftmost first" lets a run grow
    # from its left end: the longer result, and the longer left part, come first.
    order = sorted(
        (p for p in splits if splits[p]), key=lambda p: (pieces[p], len(p)), reverse=True
    )
    unknown = vocabulary.unknown_id
    return BPE(
        vocab={token: i for i, token in enumerate(vocabulary.tokens)},
        merges=[pair for piece in order for pair in reversed(splits[piece])],
        unk_token=None if unknown is None else vocabulary.tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )


def sentence_piece_normalizer(*, add_space_prefix: bool) -> "Normalizer":
    """Spaces become the space sign; each stretch of text between special tokens begins with one."""
    from tokenizers import normalizers

    spaces = normalizers.Replace(" ", SPACE)
    if not add_space_prefix:
        return spaces
    return normalizers.Sequence([normalizers.Prepend(SPACE), spaces])


def _takes_part(token: str, token_type: TokenType) -> bool:
    # A user-defined token is cut out of the text before merging, unless it is spelled with the
    # space sign, which the raw text does not contain.
    return token_type in (TokenType.NORMAL, TokenType.UNDEFINED) or (
        token_type is TokenType.USER_DEFINED and SPACE in token
    )


def _splits(piece: str, pieces: dict[str, float]) -> list[tuple[str, str]]:
    cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
    return [(left, right) for left, right in cuts if left in pieces and right in pieces]


def _check_ranks(pieces: dict[str, float], splits: dict[str, list[tuple[str, str]]]) -> None:
    owner: dict[float, str] = {}
    for piece, pairs in splits.items():
        alone = [character for character in piece if character not in pieces]
        if alone:
            raise GgufError(
                "tokenizer",
                "each character of a piece must itself be a piece",
                f"{piece[:40]!r} without {alone[0]!r}",
                "use a vocabulary written by SentencePiece",
            )
        other = owner.setdefault(pieces[piece], piece) if pairs else piece
        if other != piece and len({*piece, *other}) > 1:
            raise GgufError(
                "tokenizer",
                "pieces that merging can reach must have different scores",
                f"{other[:40]!r} and {piece[:40]!r} at {pieces[piece]}",
                "use a vocabulary whose scores give one order of merging",
            )
