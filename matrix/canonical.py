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


def row_digest(row_id: str, parts: Mapping[str, str], comparator: str) -> str:
    """The digest of a row: over its id, its parts' digests and that of what judged it."""
    return digest_of({"schema": 1, "id": row_id, "comparator": comparator, **parts})


def read_json(text: bytes) -> Any:  # noqa: ANN401 — JSON of any shape; the caller checks it
    """Reads JSON in which every number is finite.

    Raises:
        ValueError: the text is no such JSON; the message says why.
    """
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
