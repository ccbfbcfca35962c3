"""The model's own chat template, rendered in a sandbox.

The template is a program that came with a downloaded file. It runs in jinja2's immutable sandbox
(no attribute that leads out of the data, no change to the data), and within :class:`Limits`: loop
passes, the size of any value built by an operator, and the length of the output are counted. A
limit that is hit is an error, never a shortened rendering.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from retrograd.errors import ConfigError, DataError, GgufError
from retrograd.text.sandbox import (
    CLOSE,
    OPEN,
    Budget,
    Limits,
    TemplateFaultError,
    build_environment,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from retrograd.text.tokenizer import Tokenizer

Message = Mapping[str, object]

RESERVED = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}
)
"""Template variables that retrograd fills itself."""


@dataclass(frozen=True)
class Rendered:
    """Text of a conversation.

    Attributes:
        text: what the model reads.
        spans: (start, end) characters of each ``{% generation %}`` block; empty when the template
            has none.
    """

    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ChatTemplate:
    """A compiled template and what it is rendered with.

    Attributes:
        source: Jinja source.
        bos_token, eos_token: text of the model's begin and end tokens; empty when it has none.
        tools: tool declarations handed to the template, or None.
        variables: further template variables, such as ``enable_thinking``.
        now: the moment ``strftime_now`` tells; fixed here, so that every rendering of one data set
            says the same date.
        limits: bounds on what rendering may use.
    """

    source: str
    bos_token: str = ""
    eos_token: str = ""
    tools: Sequence[object] | None = None
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    now: datetime.datetime = field(default_factory=datetime.datetime.now)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Compile, so that a template at fault is told before the first conversation."""
        taken = sorted(RESERVED & self.variables.keys())
        if taken:
            raise ConfigError(
                "chat template",
                "a template variable must not replace one that retrograd fills",
                ", ".join(taken),
                "choose another name",
            )
        _compile(self.source, self.limits)

    @classmethod
    def of(
        cls,
        tokenizer: "Tokenizer",
        *,
        source: str | None = None,
        tools: Sequence[object] | None = None,
        variables: Mapping[str, object] | None = None,
        now: datetime.datetime | None = None,
    ) -> "ChatTemplate":
        """The template of a tokenizer's model, or ``source`` in its place.

        Raises:
            GgufError: the file has no template and none is given, or it does not compile.
            ConfigError: ``variables`` holds a reserved name.
        """
        chosen = tokenizer.chat_template if source is None else source
        if chosen is None:
            raise GgufError(
                "chat template",
                "a conversation needs the model's chat template (tokenizer.chat_template)",
                "a file without one",
                "use an instruction-tuned model, give a template, or use prompt/completion rows",
            )
        bos, eos = (
            "" if i is None else tokenizer.token_text(i)
            for i in (tokenizer.bos_id, tokenizer.eos_id)
        )
        return cls(
            chosen,
            bos_token=bos,
            eos_token=eos,
            tools=tools,
            variables={} if variables is None else variables,
            now=datetime.datetime.now() if now is None else now,
        )

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = False) -> str:
        """Text of a conversation.

        Args:
            messages: each a mapping with ``role`` and ``content``.
            add_generation_prompt: end with the header of the answer to come.

        Raises:
            DataError: the template refuses the conversation, fails on it or exceeds a limit.
        """
        return self.render_marked(messages, add_generation_prompt=add_generation_prompt).text

    def render_marked(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = False
    ) -> Rendered:
        """As :meth:`render`, with the spans of the template's ``{% generation %}`` blocks."""
        template, budget = _compile(self.source, self.limits)
        budget.start()
        values = dict(
            self.variables,
            messages=_plain(messages),
            tools=None if self.tools is None else _plain(self.tools),
            documents=None,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.bos_token,
            eos_token=self.eos_token,
            strftime_now=self.now.strftime,
        )
        text = _run(template, values, self.limits)
        if "generation" not in self.source:
            return Rendered(text, ())
        return _without_marks(text)


def render_chat(
    messages: Sequence[Message],
    tokenizer: "Tokenizer",
    *,
    add_generation_prompt: bool = False,
    template: ChatTemplate | None = None,
) -> str:
    """Text of a conversation in the model's own template.

    Args:
        messages: each a mapping with ``role`` and ``content``.
        tokenizer: whose model's template is used.
        add_generation_prompt: end with the header of the answer to come.
        template: another template, or one with tools, variables or a fixed date.

    Raises:
        GgufError: the model has no template, or it does not compile.
        DataError: the template refuses the conversation or fails on it.
    """
    chosen = ChatTemplate.of(tokenizer) if template is None else template
    return chosen.render(messages, add_generation_prompt=add_generation_prompt)


@lru_cache(maxsize=16)
def _compile(source: str, limits: Limits) -> "tuple[Template, Budget]":
    from jinja2 import TemplateError

    if len(source) > limits.source_characters:
        raise GgufError(
            "chat template",
            f"the template must have at most {limits.source_characters} characters",
            len(source),
            "use another copy of the model, or give a template",
        )
    try:
        environment, budget = build_environment(limits)
        return environment.from_string(source), budget
    except (TemplateError, RecursionError) as error:
        raise GgufError(
            "chat template",
            "the template must be valid Jinja",
            f"{type(error).__name__}: {error}",
            "use another copy of the model, or give a template",
        ) from error


# What a template can raise on data it was not written for.
_FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def _run(template: "Template", values: Mapping[str, object], limits: Limits) -> str:
    from jinja2 import TemplateError

    parts: list[str] = []
    n_characters = 0
    try:
        for part in template.generate(values):
            n_characters += len(part)
            if n_characters > limits.output_characters:
                raise TemplateFaultError(
                    f"the output exceeds {limits.output_characters} characters"
                )
            parts.append(part)
    except (TemplateError, *_FAULTS) as error:
        raise DataError(
            "chat template",
            "the template must render the conversation",
            f"{type(error).__name__}: {error}"[:400],
            "bring the messages into the order and shape the model's template expects",
        ) from error
    return "".join(parts)


def _plain(value: object) -> object:
    """A copy of JSON-like data in plain lists and dicts, which is what templates test for."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            "chat template",
            "messages and tools must hold JSON values only",
            str(error)[:200],
            "use strings, numbers, booleans, lists and mappings",
        ) from error
    if OPEN in text or CLOSE in text:
        raise DataError(
            "chat template",
            "text must not contain the noncharacters U+FDD0 and U+FDD1",
            "one of them",
            "remove it from the text",
        )
    return json.loads(text)


def _as_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, Sequence):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise TypeError(f"a {type(value).__name__} is not a JSON value")


def _without_marks(text: str) -> Rendered:
    spans: list[tuple[int, int]] = []
    clean: list[str] = []
    length = 0
    for i, piece in enumerate(text.split(OPEN)):
        inside, closed, after = piece.partition(CLOSE)
        if i and not closed:
            raise DataError(
                "chat template",
                "generation blocks must not lie inside one another",
                "a nested block",
                "use a template with flat generation blocks",
            )
        if i:
            spans.append((length, length + len(inside)))
        clean += [inside, after]
        length += len(inside) + len(after)
    return Rendered("".join(clean), tuple(spans))
