"""One named input of one kernel row, with everything a launch needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Stored = NDArray[np.generic]
Setting = int | float


@dataclass(frozen=True)
class Case:
    """Inputs, outputs and settings by field name of the argument struct.

    Attributes:
        name: unique within the row.
        corpus: where the values come from.
        inputs: arrays as they are stored; a quantized weight as bytes.
        outputs: shape and dtype of each output that is asked for.
        dims: the 64-bit dimension fields.
        settings: the remaining numbers; a float32 setting holds a float32 value.
        initial: what an output holds before the launch, where the op updates it.
        decoded: float64 values of stored weights.
        exact: outputs whose oracle values every order of summation reaches exactly.
        expected: right answers written by hand, to be met bit by bit.
    """

    name: str
    corpus: str
    inputs: Mapping[str, Stored]
    outputs: Mapping[str, tuple[tuple[int, ...], str]]
    dims: Mapping[str, int]
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    initial: Mapping[str, Stored] = field(default_factory=dict[str, Stored])
    decoded: Mapping[str, NDArray[np.float64]] = field(
        default_factory=dict[str, NDArray[np.float64]]
    )
    exact: frozenset[str] = frozenset()
    expected: Mapping[str, Stored] = field(default_factory=dict[str, Stored])


def single(value: float) -> float:
    """The float32 nearest to a setting, so that oracle and kernel are given one number."""
    return float(np.float32(value))


def f32(*shape: int) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a float32 output."""
    return shape, "f32"
