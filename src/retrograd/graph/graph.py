"""The static graph: values of known shape and dtype, and nodes that bind them to ops.

Forward, loss, backward and optimizer step are one graph. An activation is written once; a parameter
or a state is
persistent and may be written in place, in program order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod

from retrograd.formats import FORMATS

_PLAIN_BYTES = {"f64": 8, "i32": 4, "u32": 4, "u8": 1}


class Role(Enum):
    """Where a value lives and who writes it."""

    INPUT = "input"  # filled by the host before a run
    WEIGHT = "weight"  # frozen, read where the file maps it
    CONSTANT = "constant"  # frozen, made by the host once (RoPE tables)
    PARAMETER = "parameter"  # trained
    GRADIENT = "gradient"  # accumulates over the micro-batches of a step
    STATE = "state"  # optimizer slots, caches, norms
    ACTIVATION = "activation"  # lives in the arena


class Phase(Enum):
    """Part of a step: begin once, micro for each micro-batch, norm once, update once."""

    BEGIN = 0
    MICRO = 1
    NORM = 2
    UPDATE = 3


@dataclass(frozen=True)
class Value:
    """One array of the graph.

    Attributes:
        dtype: a storage format (``f32``, ``q4_1``, ...) or ``f64``, ``i32``, ``u32``, ``u8``.
        view: (base value id, byte offset) when the value is a slice of another one's buffer.
    """

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    view: tuple[int, int] | None = None

    @property
    def n_bytes(self) -> int:
        return n_bytes(self.shape, self.dtype)


@dataclass(frozen=True)
class Node:
    """One kernel launch: fields of its argument struct bound to values and settings."""

    op: str
    direction: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    dims: Mapping[str, int]
    settings: Mapping[str, int | float]
    phase: Phase
    label: str

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(self.inputs.values())

    @property
    def writes(self) -> tuple[int, ...]:
        return tuple(self.outputs.values())


@dataclass(frozen=True)
class Graph:
    """Values by id, nodes in program order, and the values the host reads by name."""

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, int]

    def value(self, name: str) -> Value:
        """The value of that name.

        Raises:
            KeyError: no value has that name.
        """
        for value in self.values:
            if value.name == name:
                return value
        raise KeyError(name)

    def phase(self, phase: Phase) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.phase is phase)


def n_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array; for a block format the last dimension must hold whole blocks."""
    elements = prod(shape)
    if dtype in _PLAIN_BYTES:
        return elements * _PLAIN_BYTES[dtype]
    stored = FORMATS[dtype]
    return elements // stored.block_elements * stored.block_bytes
