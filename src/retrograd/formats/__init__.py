"""Storage formats that have a native decoder: one file each, one line each below."""

from collections.abc import Mapping
from types import MappingProxyType

from retrograd.formats import (
    bf16,
    f16,
    f32,
    q2_k,
    q3_k,
    q4_0,
    q4_1,
    q4_k,
    q5_0,
    q5_1,
    q5_k,
    q6_k,
    q8_0,
)
from retrograd.formats.format import Format as Format

__all__ = ["FORMATS", "Format"]

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        row.name: row
        for row in (
            f32.FORMAT,
            f16.FORMAT,
            bf16.FORMAT,
            q4_0.FORMAT,
            q4_1.FORMAT,
            q5_0.FORMAT,
            q5_1.FORMAT,
            q8_0.FORMAT,
            q2_k.FORMAT,
            q3_k.FORMAT,
            q4_k.FORMAT,
            q5_k.FORMAT,
            q6_k.FORMAT,
        )
    }
)
