"""Canonical JSON, and the digests that are taken over it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def canonical(value: object) -> bytes:
    """Sorted keys, no spaces, UTF-8, shortest floats.

    Raises:
        ValueError: the value holds a NaN or an infinity, which JSON cannot say.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def digest_of(value: object) -> str:
    """The sha256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def row_digest(parts: Mapping[str, str], comparator: str) -> str:
    """The digest of a row: over the digests of its parts and of the comparator that judged it."""
    return digest_of({**parts, "comparator": comparator})


def read_json(text: bytes) -> Any:  # noqa: ANN401 — JSON of any shape; the caller checks it
    """Reads JSON in which every key occurs once and every number is finite.

    Raises:
        ValueError: the text is no such JSON; the message says why.
    """
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"keys occur twice: {', '.join(twice)}")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
