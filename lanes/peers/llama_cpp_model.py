"""llama.cpp through llama-cpp-python: token ids in, logits or greedy tokens out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from llama_cpp import GGML_TYPE_F32, Llama

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt


class LlamaCpp:
    """One model, with an adapter or without, keys and values cached in float32."""

    def __init__(self, model: Path, *, adapter: Path | None = None, context: int = 512) -> None:
        self._llama = Llama(
            model_path=str(model),
            lora_path=None if adapter is None else str(adapter),
            n_ctx=context,
            n_batch=context,
            n_ubatch=context,
            n_threads=2,
            n_threads_batch=2,
            type_k=GGML_TYPE_F32,
            type_v=GGML_TYPE_F32,
            logits_all=True,
            verbose=False,
        )

    def tokenize(self, text: str) -> list[int]:
        """Token ids with special tokens recognised and none added."""
        return self._llama.tokenize(text.encode(), add_bos=False, special=True)

    def logits(self, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Logits (T, V) of one row of token ids (T,)."""
        self._llama.reset()
        self._llama.eval([int(i) for i in token_ids])
        return np.array(self._llama.scores[: len(token_ids)], np.float32)

    def greedy(self, prompt: list[int], n_tokens: int) -> list[int]:
        """The prompt's most likely continuation, token by token."""
        self._llama.reset()
        self._llama.eval(prompt)
        chosen: list[int] = []
        while len(chosen) < n_tokens:
            chosen.append(int(np.argmax(self._llama.scores[self._llama.n_tokens - 1])))
            self._llama.eval(chosen[-1:])
        return chosen

    def close(self) -> None:
        """Frees the model's memory."""
        self._llama.close()
