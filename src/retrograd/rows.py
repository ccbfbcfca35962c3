"""Declared kernel rows: the data of ``rows.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Row:
    """One declared kernel row. It carries no state and no measured number.

    Attributes:
        contract: ``pinned`` (equal bits on every backend and variant) or ``bounded`` (a measured
            tolerance).
        faults: planted faults of test builds, each of which the row's lane must catch.
        limits: domain by dimension, such as ``{"C": "1..65536"}``.
    """

    op: str
    direction: str
    dtype: str
    backend: str
    contract: str
    faults: tuple[str, ...]
    limits: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def id(self) -> str:
        return row_id(self.op, self.direction, self.dtype, self.backend)


def row_id(op: str, direction: str, dtype: str, backend: str) -> str:
    """``<op>.<direction>.<dtype>.<backend>``."""
    return f"{op}.{direction}.{dtype}.{backend}"


@cache
def declared_rows() -> tuple[Row, ...]:
    """Every declared row, in the order of ``rows.toml``."""
    document = tomllib.loads(files("retrograd").joinpath("rows.toml").read_text(encoding="utf-8"))
    return tuple(
        Row(
            entry["op"],
            entry["direction"],
            dtype,
            entry["backend"],
            entry["contract"],
            tuple(entry["faults"]),
            entry.get("limits", {}),
        )
        for entry in document["row"]
        for dtype in entry["dtype"]
    )
