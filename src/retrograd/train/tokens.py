"""Token ids and labels as callers give them, checked before anything is computed from them."""

import operator
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from retrograd.errors import DataError
from retrograd.text.examples import IGNORED, Example

TokenRows = npt.NDArray[np.integer] | Sequence[int] | Sequence[Sequence[int]]

_FORMS = "whole numbers in a row, in rows, or in an array of one or two dimensions"


def whole_rows(given: object, *, where: str, what: str) -> list[list[int]]:
    """One row or several rows of whole numbers, as lists.

    Args:
        given: (T,) or (B, T) integers, or rows of different lengths.
        where, what: for messages, such as ``loss`` and ``labels``.

    Raises:
        DataError: anything else: text, floats, truth values, more dimensions, rows beside numbers.
    """
    if hasattr(given, "__array__"):
        array = np.asarray(given)
        if array.ndim not in (1, 2) or array.dtype.kind not in "iuO":
            got = f"{array.dtype} of shape {array.shape}"
            raise DataError(where, f"{what} are {_FORMS}", got, "convert them to integers")
        given = array.tolist()
    items = _items(given, where, what)
    if items and not any(_is_row(item) for item in items):
        return [_whole(items, where, what)]
    return [_whole(_items(item, where, what), where, what) for item in items]


def prompt_texts(given: object) -> list[str]:
    """One prompt or several as a list.

    Raises:
        DataError: something else than text, which a template might render without a word.
    """
    texts = [given] if isinstance(given, str) else _items(given, "generate", "prompts")
    for text in texts:
        if not isinstance(text, str):
            raise DataError("generate", "a prompt is text", type(text).__name__, "give text")
    return cast("list[str]", texts)


def require_rows(rows: Sequence[Sequence[int]], *, vocabulary: int, positions: int) -> None:
    """Checks rows that a program is about to read.

    Raises:
        DataError: no row, an empty row, a row beyond the context, or an id outside the vocabulary.
    """
    if not rows or not all(rows):
        raise DataError(
            "tokens",
            "there is at least one row of at least one token",
            f"{len(rows)} rows" + (", one of them empty" if rows else ""),
            "add tokens",
        )
    longest = max(map(len, rows))
    if longest > positions:
        rule = f"a row has at most {positions} tokens"
        raise DataError("tokens", rule, longest, "shorten the row or raise training.context")
    least, most = min(map(min, rows)), max(map(max, rows))
    if least < 0 or most >= vocabulary:
        got = least if least < 0 else most
        raise DataError("tokens", f"ids lie in [0, {vocabulary})", got, "check the token ids")


def require_examples(rows: Sequence[Example], *, vocabulary: int, positions: int) -> None:
    """Checks the rows of a step or an evaluation, labels included.

    Raises:
        DataError: as :func:`require_rows`; or labels that are not one for each token, or neither
            an id nor -100.
    """
    for number, row in enumerate(_examples(rows)):
        where = row.origin or f"row {number}"
        ids = _numbers(row.token_ids, where, "token ids")
        labels = _numbers(row.labels, where, "labels")
        if len(labels) != len(ids):
            got = f"{len(labels)} labels for {len(ids)} tokens"
            raise DataError(where, "there is one label for each token", got, "label every token")
        if len(ids) > positions:
            rule = f"a row has at most {positions} tokens"
            raise DataError(where, rule, len(ids), "shorten the row or raise training.context")
        bad = ids[(ids < 0) | (ids >= vocabulary)]
        if bad.size:
            rule = f"token ids lie in [0, {vocabulary})"
            raise DataError(where, rule, int(bad[0]), "check the token ids")
        bad = labels[((labels < 0) | (labels >= vocabulary)) & (labels != IGNORED)]
        if bad.size:
            rule = f"a label is {IGNORED} or lies in [0, {vocabulary})"
            raise DataError(where, rule, int(bad[0]), f"write {IGNORED} for what is not learnt")


def require_supervised(count: int, rows: Sequence[Example]) -> None:
    """Raises unless something is learnt from these rows.

    Raises:
        DataError: ``count`` is 0.
    """
    if count == 0:
        origins = ", ".join(row.origin for row in rows[:3] if row.origin) or f"{len(rows)} rows"
        rule = "a step has at least one supervised token after the shift"
        raise DataError(
            "loss", rule, origins, f"label some tokens with something other than {IGNORED}"
        )


def _is_row(item: object) -> bool:
    return isinstance(item, Sequence) or getattr(item, "ndim", 0) > 0


def _items(given: object, where: str, what: str) -> list[object]:
    if hasattr(given, "tolist"):
        given = np.asarray(given).tolist()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise DataError(where, f"{what} are in a list", _named(given), "put them into a list")
    return list(cast("Sequence[object]", given))


def _whole(items: Iterable[object], where: str, what: str) -> list[int]:
    out: list[int] = []
    for item in items:
        truth = isinstance(item, bool) or type(item) is np.bool_
        if truth or not hasattr(item, "__index__"):
            raise DataError(where, f"{what} are {_FORMS}", _named(item), "convert them to integers")
        out.append(operator.index(cast("int", item)))
    return out


def _named(value: object) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else f'{shown[:40]}...'}"


def _examples(rows: object) -> Iterable[Example]:
    if not isinstance(rows, Sequence):
        rule, remedy = "rows are a list of examples", "put the rows into a list"
        raise DataError("data", rule, type(rows).__name__, remedy)
    for row in cast("Sequence[object]", rows):
        if not isinstance(row, Example):
            remedy = "make retrograd.text.Example objects"
            raise DataError("data", "rows are a list of examples", type(row).__name__, remedy)
        yield row


def _numbers(values: object, where: str, what: str) -> npt.NDArray[np.integer]:
    """A row's ids or labels as they are stored: (T,) integers, T >= 1."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        rule, got = f"{what} are whole numbers below 2^63", f"{array.dtype} of shape {array.shape}"
        raise DataError(where, rule, got, "convert them to integers")
    if not array.size:
        raise DataError(where, "a row has at least one token", 0, "leave the row out")
    return array
