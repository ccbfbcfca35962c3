"""The file's tokenizer as transformers reads it.

transformers gives every byte-level vocabulary the same pre-tokenizer and does not look at the one
that the file names. For ``smollm`` that loses the step which sets every digit apart: text with
numerals outside ASCII then gets other ids than llama.cpp's and the original tokenizer's. The step
is put back here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

if TYPE_CHECKING:
    from pathlib import Path


class TransformersTokens:
    """``AutoTokenizer`` on the GGUF file itself, with the pre-tokenizer that the file names."""

    def __init__(self, model: Path) -> None:
        named = gguf.GGUFReader(model).fields["tokenizer.ggml.pre"].contents()
        if named != "smollm":
            message = f"this peer knows the pre-tokenizer smollm; got {named}"
            raise ValueError(message)
        self._tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
        self._tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )

    def tokenize(self, text: str) -> list[int]:
        """Token ids with special tokens recognised and none added."""
        return self._tokenizer.encode(text, add_special_tokens=False)
