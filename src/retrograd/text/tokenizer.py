"""Text to token ids and back, with the vocabulary of a GGUF file."""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from retrograd.errors import DataError, GgufError
from retrograd.text.byte_level import character_to_byte
from retrograd.text.models import (
    SPACE,
    byte_level_model,
    byte_level_steps,
    missing_bytes,
    pre_tokenizer_row,
    sentence_piece_model,
    sentence_piece_normalizer,
    whole_characters,
)
from retrograd.text.vocabulary import CONTROL_TYPES, TokenType, Vocabulary, is_encodable

if TYPE_CHECKING:
    import tokenizers

Offsets: TypeAlias = list[tuple[int, int]]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """The tokenizer of one model.

    Attributes:
        vocabulary: the checked vocabulary.
        bos_id, eos_id: begin and end of text, or None.
        eot_ids: every id that ends a turn, ``eos_id`` among them.
        add_bos, add_eos: what ``encode(add_special=True)`` puts around the text.
        chat_template: source of the model's Jinja template, or None.
    """

    def __init__(self, vocabulary: Vocabulary, *, chat_template: str | None = None) -> None:
        """Build from a checked vocabulary; :meth:`from_metadata` checks one."""
        self.vocabulary = vocabulary
        self.chat_template = chat_template
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.eot_ids = vocabulary.eot_ids
        self._is_sentence_piece = vocabulary.model == "llama"
        self._space_prefix = self._is_sentence_piece and vocabulary.add_space_prefix is not False
        default = self._is_sentence_piece or pre_tokenizer_row(vocabulary).add_bos
        wanted = default if vocabulary.add_bos is None else vocabulary.add_bos
        self.add_bos = wanted and self.bos_id is not None
        self.add_eos = vocabulary.add_eos is True and self.eos_id is not None
        self._missing_bytes = missing_bytes(vocabulary)
        self._whole_characters = whole_characters(vocabulary)
        self._bytes: dict[int, bytes] = {}
        self._literal, self._parsing = self._build()
        self._control = self._control_pattern()

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> "Tokenizer":
        """Build from a GGUF file's metadata.

        Raises:
            GgufError: the vocabulary is malformed, or its model or pre-tokenizer is not known here.
        """
        template = metadata.get("tokenizer.chat_template")
        if template is not None and not isinstance(template, str):
            raise GgufError(
                "tokenizer",
                "tokenizer.chat_template must be a string",
                type(template).__name__,
                "convert the model to GGUF again, or use another copy of it",
            )
        return cls(Vocabulary.from_metadata(metadata), chat_template=template)

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary.tokens)

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Token ids of a text.

        A character for which the vocabulary has no token is left out, as the models' own tokenizers
        do; :meth:`lost_character` finds it.

        Args:
            text: any text with a UTF-8 form.
            add_special: put the begin and end tokens around it where the file asks for them.
            parse_special: read ``<|im_end|>`` and other control tokens as such; otherwise their
                spelling is text. User-defined tokens are read in both cases.

        Raises:
            DataError: the text holds a lone surrogate.
        """
        return self.encode_with_offsets(text, add_special=add_special, parse_special=parse_special)[
            0
        ]

    def encode_with_offsets(
        self, text: str, *, add_special: bool = False, parse_special: bool = True
    ) -> tuple[list[int], Offsets]:
        """As :meth:`encode`, with the (start, end) characters of ``text`` behind each token.

        Tokens that hold parts of one character all carry that character's offsets.
        """
        _require_encodable(text)
        encoding = (self._parsing if parse_special else self._literal).encode(
            text, add_special_tokens=False
        )
        ids, offsets = encoding.ids, encoding.offsets
        if add_special and self.add_bos and self.bos_id is not None:
            ids, offsets = [self.bos_id, *ids], [(0, 0), *offsets]
        if add_special and self.add_eos and self.eos_id is not None:
            ids, offsets = [*ids, self.eos_id], [*offsets, (len(text), len(text))]
        return ids, offsets

    def lost_character(self, text: str) -> str | None:
        """The first character of the text that no token of the vocabulary can hold, if any.

        Raises:
            DataError: the text holds a lone surrogate.
        """
        _require_encodable(text)
        if self._missing_bytes.isdisjoint(text.encode("utf-8")):
            return None
        return next((c for c in text if self._is_lost(c)), None)

    def control_token_in(self, text: str) -> str | None:
        """The first control token spelled out in the text, if any."""
        found = None if self._control is None else self._control.search(text)
        return None if found is None else found.group()

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of token ids.

        Bytes that are not valid UTF-8, such as a character cut off at the end, become U+FFFD.

        Args:
            ids: token ids.
            skip_special: leave out control tokens.

        Raises:
            DataError: an id is not in the vocabulary.
        """
        decoder = StreamDecoder(self, skip_special=skip_special)
        return "".join([*(decoder.feed(i) for i in ids), decoder.finish()])

    def token_text(self, token_id: int) -> str:
        """The token as the vocabulary stores it.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        self._check(token_id)
        return self.vocabulary.tokens[token_id]

    def token_type(self, token_id: int) -> TokenType:
        """What the token is for.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        self._check(token_id)
        return self.vocabulary.types[token_id]

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes the token stands for; they may end inside a character.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        self._check(token_id)
        if token_id not in self._bytes:
            self._bytes[token_id] = self._to_bytes(token_id)
        return self._bytes[token_id]

    @property
    def has_space_prefix(self) -> bool:
        """Whether encoding puts a space before each stretch of text, which decoding takes away."""
        return self._space_prefix

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self.n_tokens:
            raise DataError(
                "tokenizer",
                f"a token id must lie between 0 and {self.n_tokens - 1}",
                token_id,
                "use ids of this model's vocabulary",
            )

    def _to_bytes(self, token_id: int) -> bytes:
        token, token_type = self.vocabulary.tokens[token_id], self.vocabulary.types[token_id]
        if token_type in CONTROL_TYPES or token_type is TokenType.USER_DEFINED:
            return token.encode("utf-8")
        if self._is_sentence_piece:
            found = _BYTE_TOKEN.fullmatch(token) if token_type is TokenType.BYTE else None
            text = token.replace(SPACE, " ")
            return text.encode("utf-8") if found is None else bytes([int(found[1], 16)])
        table = character_to_byte()
        if any(character not in table for character in token):
            return token.encode("utf-8")
        return bytes(table[character] for character in token)

    def _build(self) -> "tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]":
        """Two faces of one model: control tokens as text, and control tokens parsed."""
        import tokenizers

        if self._is_sentence_piece:
            model = sentence_piece_model(self.vocabulary)
            normalizer = sentence_piece_normalizer(add_space_prefix=self._space_prefix)
            pre_tokenizer = None
        else:
            model = byte_level_model(self.vocabulary)
            normalizer, pre_tokenizer = byte_level_steps(pre_tokenizer_row(self.vocabulary))
        faces: list[tokenizers.Tokenizer] = []
        for added in ({TokenType.USER_DEFINED}, {TokenType.USER_DEFINED, *CONTROL_TYPES}):
            face = tokenizers.Tokenizer(model)
            if normalizer is not None:
                face.normalizer = normalizer
            if pre_tokenizer is not None:
                face.pre_tokenizer = pre_tokenizer
            texts = self._texts_of(frozenset(added))
            face.add_special_tokens(  # pyright: ignore[reportUnknownMemberType]
                [tokenizers.AddedToken(text, normalized=False) for text in texts]
            )
            faces.append(face)
        return faces[0], faces[1]

    def _control_pattern(self) -> re.Pattern[str] | None:
        longest_first = sorted(self._texts_of(CONTROL_TYPES), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def _texts_of(self, types: frozenset[TokenType]) -> list[str]:
        pairs = zip(self.vocabulary.tokens, self.vocabulary.types, strict=True)
        return [token for token, token_type in pairs if token_type in types and token]

    def _is_lost(self, character: str) -> bool:
        if character in self._whole_characters:
            return False
        return not self._missing_bytes.isdisjoint(character.encode("utf-8"))


def _require_text(given: object) -> None:
    if not isinstance(given, str):
        raise DataError("tokenizer", "what is encoded is text", type(given).__name__, "give text")


def _require_encodable(text: str) -> None:
    _require_text(text)
    if not text.isascii() and not is_encodable(text):
        at = next(i for i, c in enumerate(text) if 0xD800 <= ord(c) < 0xE000)
        raise DataError(
            "tokenizer",
            "text must have a UTF-8 form",
            f"the lone surrogate U+{ord(text[at]):04X} at character {at}",
            "replace it by the character that was meant",
        )


class StreamDecoder:
    """Decoding one id at a time, as a model generates them.

    Args:
        tokenizer: whose vocabulary the ids belong to.
        after: the ids that came before; they decide whether a leading space belongs to the text.
        skip_special: leave out control tokens.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, after: Sequence[int] = (), skip_special: bool = True
    ) -> None:
        """Start before the first id."""
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = not after or self._is_cut(after[-1])

    def feed(self, token_id: int) -> str:
        """The text that is complete with this id; a character still missing bytes is held back.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        data = self._tokenizer.token_bytes(token_id)
        if self._is_cut(token_id):
            self._at_start = True
            hidden = self._skip_special and self._tokenizer.token_type(token_id) in CONTROL_TYPES
            # Flushed first: the bytes of one character never lie on both sides of such a token.
            return self.finish() + ("" if hidden else self._decoder.decode(data))
        if self._at_start and self._tokenizer.has_space_prefix and data.startswith(b" "):
            data = data[1:]
        self._at_start = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """What was held back, as U+FFFD."""
        return self._decoder.decode(b"", final=True)

    def _is_cut(self, token_id: int) -> bool:
        token_type = self._tokenizer.token_type(token_id)
        return token_type in CONTROL_TYPES or token_type is TokenType.USER_DEFINED
