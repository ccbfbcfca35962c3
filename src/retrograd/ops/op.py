"""What an op is: its kernels' signatures, its shape rule and its gradient rule.

An op owns one kernel signature per direction. Field names are those of the C argument struct in
``native/include/retrograd/ops/<op>.h``: inputs, outputs, ``scratch``, dimensions, settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from retrograd.errors import InternalError, RetrogradError

Setting = int | float
Shape = tuple[int, ...]


class Spec(Protocol):
    """Shape and storage of a value, as the rules see it."""

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class Inferred:
    """Result of a shape rule.

    Attributes:
        outputs: shape and dtype of each output field.
        dims: the 64-bit dimension fields of the argument struct.
    """

    outputs: Mapping[str, tuple[Shape, str]]
    dims: Mapping[str, int]


class Tape(Protocol):
    """What a gradient rule may do: read cotangents of outputs and add cotangents to inputs."""

    def value(self, name: str) -> Spec:
        """The forward node's input or output of that field name."""
        ...

    def has(self, name: str) -> bool:
        """Whether the forward node has that (optional) input."""
        ...

    def setting(self, name: str) -> Setting: ...

    def cotangent(self, output: str) -> Spec:
        """The finished cotangent of an output."""
        ...

    def wants(self, name: str) -> bool:
        """Whether a gradient has to reach this input."""
        ...

    def take(self, name: str) -> Spec | None:
        """Removes and returns an input's cotangent so far, to be folded into a kernel."""
        ...

    def add(self, name: str, cotangent: Spec) -> None:
        """Adds a cotangent to an input."""
        ...

    def accumulator(self, name: str) -> Spec:
        """The gradient buffer of a parameter: the kernel reads it as ``c`` and writes it."""
        ...

    def emit(
        self,
        direction: str,
        inputs: Mapping[str, Spec | None],
        *,
        settings: Mapping[str, Setting] | None = None,
        into: Mapping[str, Spec] | None = None,
    ) -> Mapping[str, Spec]:
        """Adds a backward node of the same op; ``into`` names outputs that are written in place."""
        ...


@dataclass(frozen=True)
class Kernel:
    """Signature of one direction of an op.

    Attributes:
        inputs: input fields in struct order.
        outputs: output fields in struct order.
        infer: shape rule; raises when shapes or dtypes do not fit.
        optional: fields that may be absent.
        settings: names of the 4-byte and 8-byte settings after the dimensions.
        weight: the input whose storage format stands in the row's dtype slot.
        in_place: output field -> input field whose buffer it may take over when that input dies
            here.
        scratch: bytes of scratch from (dims, settings, threads, dtype of `weight`); None for no
            scratch field.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    infer: Callable[[Mapping[str, Spec], Mapping[str, Setting]], Inferred]
    optional: frozenset[str] = frozenset()
    settings: tuple[str, ...] = ()
    weight: str | None = None
    in_place: Mapping[str, str] = field(default_factory=dict[str, str])
    scratch: Callable[[Mapping[str, int], Mapping[str, Setting], int, str], int] | None = None


@dataclass(frozen=True)
class Op:
    """An op: its name, its kernels by direction, and how a gradient passes back through it."""

    name: str
    kernels: Mapping[str, Kernel]
    vjp: Callable[[Tape], None] | None = None


class ShapeError(RetrogradError):
    """A node whose inputs break its op's shape or dtype rule."""


def need(op: str, rule: str, *, holds: bool, got: object) -> None:
    """Raises :class:`ShapeError` unless a shape rule holds."""
    if not holds:
        raise ShapeError(op, rule, got, "fix the graph or the model's metadata")


def matrix(op: str, name: str, value: Spec) -> tuple[int, int]:
    """Rows and columns of a value that must have two dimensions."""
    if len(value.shape) != 2:
        raise ShapeError(
            op, f"'{name}' has two dimensions", value.shape, "fix the graph or the model's metadata"
        )
    return value.shape[0], value.shape[1]


def dtype_slot(kernel: Kernel, inputs: Mapping[str, Spec]) -> str:
    """The dtype slot of the row id: ``f32``, or ``<format>-f32`` for a weight stored otherwise."""
    if kernel.weight is None:
        return "f32"
    if kernel.weight not in inputs:
        raise InternalError(
            "ops", "a kernel row is chosen by its weight", kernel.weight, "report this"
        )
    stored = inputs[kernel.weight].dtype
    return "f32" if stored == "f32" else f"{stored}-f32"
