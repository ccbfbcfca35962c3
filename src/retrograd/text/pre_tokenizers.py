"""How a byte-level vocabulary cuts text into words before it merges bytes: one row per name.

A GGUF file names its rule in ``tokenizer.ggml.pre``. The patterns of a row are applied in order,
each to the pieces the one before it left; what a pattern does not match stays a piece of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# The same expression in two families; only the longest run of digits differs.
_CASELESS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class PreTokenizer:
    """One named rule.

    Attributes:
        name: the value of ``tokenizer.ggml.pre``.
        patterns: regular expressions, applied in order.
        ignore_merges: a word that is itself a token is taken whole, without merging.
        compose: text is brought to Unicode normalisation form C first. The models that name this
            rule were trained so; offsets still count characters of the original text.
        add_bos: whether a file that does not say puts the begin token first.
    """

    name: str
    patterns: tuple[str, ...]
    ignore_merges: bool = False
    compose: bool = False
    add_bos: bool = False


_ROWS = (
    PreTokenizer("smollm", (r"\p{N}", _GPT2)),
    PreTokenizer("qwen2", (_CASELESS.replace("DIGITS", r"\p{N}"),), compose=True),
    PreTokenizer(
        "llama-bpe",
        (_CASELESS.replace("DIGITS", r"\p{N}{1,3}"),),
        ignore_merges=True,
        add_bos=True,
    ),
    PreTokenizer("gpt-2", (_GPT2,)),
    # What readers of GGUF apply when a file gives no rule, or names this one.
    PreTokenizer("default", (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = MappingProxyType({row.name: row for row in _ROWS})
