"""Generation with a key and value cache: one decode step a token for all prompts together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Literal

import numpy as np
import numpy.typing as npt

from retrograd.errors import ConfigError, DataError
from retrograd.graph import Phase
from retrograd.philox import Purpose, stream_words
from retrograd.runtime import Program, Store
from retrograd.text import Tokenizer, render_chat
from retrograd.train.batch import bucket
from retrograd.train.graphs import Kind
from retrograd.train.session import Session

MOST_PROMPTS = 32  # prompts decoded together
PREFILL_TOKENS = 256  # prompt tokens handled in one run


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen; temperature 0 takes the most likely, the lowest id among equals."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks types and ranges."""
        for name in ("temperature", "top_p"):
            _require_number(name, getattr(self, name), Real)
        for name in ("top_k", "seed"):
            _require_number(name, getattr(self, name), Integral)
        if not (self.temperature >= 0.0 and np.isfinite(self.temperature)):
            raise ConfigError(
                "generate", "temperature is at least 0", self.temperature, "use 0 for greedy"
            )
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(
                "generate", "top_p lies in (0, 1]", self.top_p, "use 1 for all tokens"
            )
        if self.top_k < 0:
            raise ConfigError("generate", "top_k is at least 0", self.top_k, "use 0 for all tokens")
        if not 0 <= self.seed < 2**64:
            raise ConfigError("generate", "seed lies in [0, 2^64)", self.seed, "use a seed like 0")


def _require_number(name: str, value: object, kind: type[Real] | type[Integral]) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        rule = f"{name} is a {'whole number' if kind is Integral else 'number'}"
        raise ConfigError("generate", rule, f"{type(value).__name__} {value!r}", "correct it")


@dataclass(frozen=True)
class Completion:
    """What the model added to a prompt.

    Attributes:
        token_ids: new ids, the end-of-turn token left out.
        stopped: ``end_of_turn`` or ``length``.
    """

    text: str
    token_ids: tuple[int, ...]
    stopped: Literal["end_of_turn", "length"]


@dataclass
class _Slot:
    """One prompt in flight: its place in the cache and what it has produced."""

    index: int  # place among all prompts, which keys its random draws
    base: int  # first cache row
    tokens: list[int]
    prompt: int
    out: list[int] = field(default_factory=list[int])
    stopped: Literal["end_of_turn", "length"] | None = None


def choose(logits: npt.NDArray[np.float32], sampling: Sampling, prompt: int, place: int) -> int:
    """Picks a token id from (V,) logits; ``place`` counts a prompt's new tokens from 0."""
    if not np.isfinite(logits).all():
        raise DataError(
            "generate",
            "logits are finite",
            "a NaN or an infinity",
            "check the model and the adapter",
        )
    if sampling.temperature == 0.0:
        return int(np.argmax(logits))
    exact = logits.astype(np.float64)
    order = np.argsort(-exact, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    # The largest is taken off first: a temperature near 0 then gives 0 and not infinity - infinity.
    with np.errstate(over="ignore"):
        weights = np.exp((exact[order] - exact[order[0]]) / sampling.temperature)
    weights /= weights.sum()
    if sampling.top_p < 1.0:
        kept = int(np.searchsorted(np.cumsum(weights), sampling.top_p)) + 1
        order, weights = order[:kept], weights[:kept] / weights[:kept].sum()
    word = stream_words(sampling.seed, Purpose.SAMPLING, place, f"prompt.{prompt}", 1)[0]
    drawn = int(np.searchsorted(np.cumsum(weights), (float(word) + 0.5) / 2.0**32))
    return int(order[min(drawn, len(order) - 1)])


class Generator:
    """Runs prompts through a session's model."""

    def __init__(self, session: Session, tokenizer: Tokenizer) -> None:
        self.session = session
        self.tokenizer = tokenizer

    def prompt_ids(self, text: str, *, chat: bool, system: str | None = None) -> list[int]:
        """Token ids of a prompt, rendered as a conversation or raw."""
        if not chat:
            return self.tokenizer.encode(text, add_special=True)
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        rendered = render_chat(messages, self.tokenizer, add_generation_prompt=True)
        return self.tokenizer.encode(rendered)

    def run(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int, sampling: Sampling
    ) -> list[Completion]:
        """One completion a prompt, in order.

        Raises:
            ConfigError: ``max_tokens`` is below 1.
            DataError: a prompt is empty or does not fit the model's context.
        """
        _require_number("max_tokens", max_tokens, Integral)
        if max_tokens < 1:
            raise ConfigError(
                "generate", "max_tokens is at least 1", max_tokens, "ask for at least one token"
            )
        for ids in prompts:
            if not 0 < len(ids) < self.session.positions:
                rule = f"a prompt has between 1 and {self.session.positions - 1} tokens"
                raise DataError(
                    "generate", rule, len(ids), "shorten the prompt or raise training.context"
                )
        done: list[Completion] = []
        for first in range(0, len(prompts), MOST_PROMPTS):
            group = [list(ids) for ids in prompts[first : first + MOST_PROMPTS]]
            for slot in _Batch(
                self.session, group, first, max_tokens, sampling, self.tokenizer
            ).finish():
                text = self.tokenizer.decode(slot.out)
                done.append(Completion(text, tuple(slot.out), slot.stopped or "length"))
        return done


class _Batch:
    """A group of prompts with caches of its own."""

    def __init__(
        self,
        session: Session,
        prompts: list[list[int]],
        first: int,
        max_tokens: int,
        sampling: Sampling,
        tokenizer: Tokenizer,
    ) -> None:
        self.session = session
        self.max_tokens = max_tokens
        self.sampling = sampling
        self.stops = tokenizer.eot_ids
        self.n_tokens = tokenizer.n_tokens  # rows of the head beyond these stand for no token
        rows = min(max(len(p) for p in prompts) + max_tokens, session.positions)
        self.capacity = rows
        self.cache_rows = rows * len(prompts)
        self.slots = [_Slot(first + i, i * rows, ids, len(ids)) for i, ids in enumerate(prompts)]
        self.store = Store(session.device, session.store)
        self.programs: dict[tuple[Kind, int], Program] = {}

    def finish(self) -> list[_Slot]:
        """Decodes until every slot has stopped."""
        for chunk in self._prefill_chunks():
            self._run(Kind.PREFILL, chunk)
        active = self.slots
        while active:
            ends = [(slot, len(slot.tokens) - 1) for slot in active]
            logits = self._run(Kind.DECODE, ends).read("logits")
            for row, slot in enumerate(active):
                scores = logits[row, : self.n_tokens]
                self._advance(slot, choose(scores, self.sampling, slot.index, len(slot.out)))
            active = [slot for slot in active if slot.stopped is None]
        return self.slots

    def _prefill_chunks(self) -> Iterator[list[tuple[_Slot, int]]]:
        """Every prompt token but the last ones, which the first decode step handles."""
        pending = [(slot, place) for slot in self.slots for place in range(slot.prompt - 1)]
        for start in range(0, len(pending), PREFILL_TOKENS):
            yield pending[start : start + PREFILL_TOKENS]

    def _advance(self, slot: _Slot, token: int) -> None:
        if token in self.stops:
            slot.stopped = "end_of_turn"
            return
        slot.out.append(token)
        slot.tokens.append(token)
        if len(slot.out) >= self.max_tokens or len(slot.tokens) >= self.capacity:
            slot.stopped = "length"

    def _run(self, kind: Kind, places: list[tuple[_Slot, int]]) -> Program:
        size = bucket(len(places)) if kind is Kind.PREFILL else _decode_size(len(places))
        key = (kind, size)
        if key not in self.programs:
            graph = self.session.graph(kind, size, cache_rows=self.cache_rows)
            self.programs[key] = Program(graph, self.store)
        program = self.programs[key]
        zeros = np.zeros(size, np.int32)
        fields = {n: zeros.copy() for n in ("ids", "positions", "key_begin", "key_end")}
        fields["cache_rows"] = np.full(
            size, -1, np.int32
        )  # padding is written nowhere and sees no key
        for i, (slot, place) in enumerate(places):
            fields["ids"][i] = slot.tokens[place]
            fields["positions"][i] = place
            fields["key_begin"][i] = slot.base
            fields["key_end"][i] = slot.base + place + 1
            fields["cache_rows"][i] = slot.base + place
        for name, data in fields.items():
            program.write(name, data)
        program.run(Phase.MICRO)
        return program


def _decode_size(rows: int) -> int:
    return 1 << (rows - 1).bit_length()
