"""Loss masks: one tokenization of the whole text, and character offsets that tell who wrote what.

Tokenizing the parts and joining them gives other tokens than the model will see at their seams, so
the text is tokenized once. A token belongs to the stretch in which it **starts**: one that begins
in the header and reaches into the answer is not supervised, one that begins in the answer is. The
token that ends the turn is supervised; white space after it is not, since a model that has ended
its turn writes nothing more.
"""

from collections.abc import Mapping, Sequence

from retrograd.errors import DataError
from retrograd.text.chat import ChatTemplate, Message
from retrograd.text.examples import Example, supervise
from retrograd.text.spans import Turn, find_turns
from retrograd.text.tokenizer import Offsets, Tokenizer


def tokenize_chat(
    messages: Sequence[Message],
    tokenizer: Tokenizer,
    *,
    template: ChatTemplate | None = None,
    origin: str = "chat",
) -> Example:
    """A conversation as token ids, with the loss on what the assistant says.

    The begin token is put first where the model asks for one and the template did not write it.

    Args:
        messages: each a mapping with ``role`` (string) and ``content`` (string, or null beside
            ``tool_calls``); further keys are handed to the template.
        tokenizer: the model's tokenizer.
        template: another template, or one with tools, variables or a fixed date.
        origin: named in errors, as ``file:line``.

    Raises:
        GgufError: the model has no template.
        DataError: the conversation is malformed, spells out a control token, holds a character
            without a token, has a turn that cannot be placed or does not end, or nothing to learn.
    """
    chosen = ChatTemplate.of(tokenizer) if template is None else template
    check_messages(messages, tokenizer, origin=origin)
    conversation = find_turns(messages, chosen, origin=origin)
    text = conversation.text
    check_characters(text, tokenizer, origin=origin)
    ids, offsets = tokenizer.encode_with_offsets(text)
    supervised: set[int] = set()
    for turn in conversation.turns:
        supervised |= _tokens_of(turn, ids, offsets, text, tokenizer, origin)
    ids, supervised = with_begin(ids, supervised, tokenizer)
    return _checked(supervise(ids, supervised, origin), tokenizer)


def tokenize_completion(
    prompt: str, completion: str, tokenizer: Tokenizer, *, origin: str = "completion"
) -> Example:
    """A prompt and its completion as token ids, with the loss on the completion and the end token.

    Both are tokenized as one text, control tokens parsed. The model's end-of-text token is added
    unless the completion already ends its turn.

    Raises:
        DataError: there is no completion, a character has no token, or no end token is known.
    """
    if not completion:
        raise DataError(
            origin,
            "a completion must not be empty",
            "an empty string",
            "write the completion, or remove the row",
        )
    text = prompt + completion
    check_characters(text, tokenizer, origin=origin)
    ids, offsets = tokenizer.encode_with_offsets(text)
    supervised = {k for k, (start, _) in enumerate(offsets) if start >= len(prompt)}
    if not ids or ids[-1] not in tokenizer.eot_ids:
        if tokenizer.eos_id is None:
            raise DataError(
                origin,
                "a completion must end with a token that stops generation",
                "a model without an end-of-text token",
                "end the completion with the model's end-of-turn token",
            )
        supervised.add(len(ids))
        ids = [*ids, tokenizer.eos_id]
    ids, supervised = with_begin(ids, supervised, tokenizer)
    return _checked(supervise(ids, supervised, origin), tokenizer)


def with_begin(
    ids: list[int], supervised: set[int], tokenizer: Tokenizer
) -> tuple[list[int], set[int]]:
    """Put the begin token first where the model asks for one and it is not there."""
    begin = tokenizer.bos_id
    if not tokenizer.add_bos or begin is None or ids[:1] == [begin]:
        return ids, supervised
    return [begin, *ids], {k + 1 for k in supervised}


def check_characters(text: str, tokenizer: Tokenizer, *, origin: str) -> None:
    """Refuse text of which a character would be left out.

    Raises:
        DataError: the vocabulary has no token for a character.
    """
    lost = tokenizer.lost_character(text)
    if lost is not None:
        raise DataError(
            origin,
            "each character must have a token in the model's vocabulary",
            f"U+{ord(lost):04X}",
            "remove or replace the character",
        )


def check_messages(messages: Sequence[Message], tokenizer: Tokenizer, *, origin: str) -> None:
    """Refuse what is not a list of messages, and text that would act as a control token.

    Raises:
        DataError: with the index of the message.
    """
    if not messages:
        raise DataError(origin, "messages must not be empty", "an empty list", "add messages")
    for index, message in enumerate(messages):
        rule, got = _fault_in(message, tokenizer)
        if rule:
            raise DataError(origin, rule, f"{got} in message {index}", "correct the message")


def _fault_in(message: object, tokenizer: Tokenizer) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        return "a message must be an object with role and content", type(message).__name__
    role, content = message.get("role"), message.get("content")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(role, str) or not role:
        return "role must be a non-empty string", repr(role)[:40]  # pyright: ignore[reportUnknownArgumentType]
    if content is None and message.get("tool_calls"):  # pyright: ignore[reportUnknownMemberType]
        return "", ""
    if not isinstance(content, str):
        return "content must be a string", type(content).__name__  # pyright: ignore[reportUnknownArgumentType]
    control = tokenizer.control_token_in(content)
    if control is not None:
        return "content must not spell out a control token, which would act as one", repr(control)
    return "", ""


def _tokens_of(
    turn: Turn, ids: list[int], offsets: Offsets, text: str, tokenizer: Tokenizer, origin: str
) -> set[int]:
    """Positions of the tokens that start in the turn, up to and including the one that ends it."""

    def is_blank(k: int) -> bool:
        return not text[slice(*offsets[k])].strip()

    inside = [k for k, (start, _) in enumerate(offsets) if turn.start <= start < turn.end]
    tail = len(inside)
    while tail and (ids[inside[tail - 1]] in tokenizer.eot_ids or is_blank(inside[tail - 1])):
        tail -= 1
    # Some templates write a second end token: generation has stopped at the first.
    end = next((k for k in inside[tail:] if ids[k] in tokenizer.eot_ids), None)
    if end is not None:
        return {k for k in inside if k <= end}
    following = next((k for k, (start, _) in enumerate(offsets) if start >= turn.end), None)
    while following is not None and following < len(ids):
        if ids[following] in tokenizer.eot_ids:
            first = inside[0] if inside else following
            return set(range(first, following + 1))
        if not is_blank(following):
            break
        following += 1
    raise DataError(
        origin,
        "each assistant message must end with an end-of-turn token, which teaches stopping",
        repr(text[max(turn.start, turn.end - 20) : turn.end + 20]),
        "use a template that writes one of the model's end tokens after an answer",
    )


def _checked(example: Example, tokenizer: Tokenizer) -> Example:
    if not example.n_supervised:
        shown = tokenizer.decode(example.token_ids[:16], skip_special=False)
        raise DataError(
            example.origin,
            "a row must have at least one supervised token after its first token",
            f"{len(example.token_ids)} tokens, none of them supervised, beginning {shown!r}",
            "remove the row",
        )
    return example
