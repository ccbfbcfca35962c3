"""Where in a rendered conversation the assistant speaks.

Templates do not say. Three ways to find out, tried in this order; each proves its answer on the
rendered text, and a turn that none of them can prove is refused:

1. **Markers.** The template wraps what the model writes in ``{% generation %}`` blocks.
2. **Prefixes.** The conversation up to the turn, with the generation prompt, and the conversation
   up to and including it, are both beginnings of the whole: the turn lies between. Where the
   template has no generation prompt, what it writes before the content is a header, so the span
   is the content.
3. **Stand-in.** The turn's content is replaced by a word that occurs nowhere else. All text before
   and after that word must be equal to the original's, which leaves the content between. This
   finds turns of templates that rewrite history, such as those that drop earlier thinking.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.errors import DataError
from retrograd.text.chat import ChatTemplate, Message

ASSISTANT = "assistant"


@dataclass(frozen=True)
class Turn:
    """One stretch of text that the model writes.

    Attributes:
        start, end: characters of the rendered text. The end-of-turn token lies inside, or follows
            after nothing but white space.
    """

    start: int
    end: int


@dataclass(frozen=True)
class Conversation:
    """A rendered conversation and its assistant turns."""

    text: str
    turns: tuple[Turn, ...]


def find_turns(messages: Sequence[Message], template: ChatTemplate, *, origin: str) -> Conversation:
    """Render a conversation and find every assistant turn in it.

    Raises:
        DataError: there is no assistant turn, or one whose place cannot be proved.
    """
    rendered = template.render_marked(messages)
    indices = [i for i, message in enumerate(messages) if message.get("role") == ASSISTANT]
    if not indices:
        raise DataError(
            origin,
            "a conversation needs at least one assistant message to learn from",
            f"{len(messages)} messages without one",
            "add the answer, or remove the row",
        )
    if rendered.spans:
        return Conversation(rendered.text, tuple(Turn(*span) for span in rendered.spans))
    text = rendered.text
    turns: list[Turn] = []
    for index in indices:
        turn = _by_prefixes(messages, index, text, template)
        turn = _by_stand_in(messages, index, text, template) if turn is None else turn
        if turn is None or (turns and turn.start < turns[-1].end):
            raise DataError(
                origin,
                "the template must show where each assistant message lies in the rendered text",
                f"message {index}, which neither prefixes nor a stand-in can place",
                "give a template with {% generation %} blocks",
            )
        turns.append(turn)
    return Conversation(text, tuple(turns))


def _by_prefixes(
    messages: Sequence[Message], index: int, text: str, template: ChatTemplate
) -> Turn | None:
    header = _attempt(template, messages[:index], add_generation_prompt=True)
    whole = _attempt(template, messages[: index + 1], add_generation_prompt=False)
    if header is None or whole is None:
        return None
    if not (text.startswith(whole) and whole.startswith(header) and len(header) < len(whole)):
        return None
    if header != _attempt(template, messages[:index], add_generation_prompt=False):
        return Turn(len(header), len(whole))
    content = _by_stand_in(messages, index, text, template)
    if content is None or not len(header) <= content.start <= content.end <= len(whole):
        return None
    blank = not text[len(header) : content.start].strip()
    return Turn(len(header) if blank else content.start, content.end)


def _by_stand_in(
    messages: Sequence[Message], index: int, text: str, template: ChatTemplate
) -> Turn | None:
    content = messages[index].get("content")
    if not isinstance(content, str) or not content.strip():
        return None
    word = next(w for i in itertools.count() if (w := f"standin{i}forturn{index}") not in text)
    replaced = dict(messages[index], content=word)
    other = _attempt(
        template, [*messages[:index], replaced, *messages[index + 1 :]], add_generation_prompt=False
    )
    if other is None or other.count(word) != 1:
        return None
    before, after = other.split(word)
    end = len(text) - len(after)
    if not (text.startswith(before) and text.endswith(after) and len(before) < end):
        return None
    shown = text[len(before) : end].strip()
    return Turn(len(before), end) if shown and shown in content else None


def _attempt(
    template: ChatTemplate, messages: Sequence[Message], *, add_generation_prompt: bool
) -> str | None:
    """Rendering of a part of the conversation; None where the template refuses the part."""
    try:
        return template.render(messages, add_generation_prompt=add_generation_prompt)
    except DataError:
        return None
