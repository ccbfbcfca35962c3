"""What a lane observed of one case: errors of every element, folded to a few numbers.

Absolute and relative errors are taken against the oracle in float64 before it is rounded, ulp in
the comparator's steps. An element of another class (a NaN, an infinity) than the oracle's has the
largest finite error, since JSON has no infinity. Elements whose wanted value is zero have no
relative error.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lanes.comparator import bitwise_equal, distances, equal_values

Float = NDArray[np.float64]
Grade = Literal["lattice", "pinned", "bounded"]
LARGEST = float(np.finfo(np.float64).max)
QUANTILE = 0.999


@dataclass(frozen=True)
class Errors:
    """Largest and 99.9th percentile errors of the elements compared.

    Attributes:
        bits_differing: elements whose bits are not those that the grade promises: the replay's, the
            rounded oracle's on a lattice; and where nothing is promised, the rounded oracle's.
    """

    max_abs: float = 0.0
    p999_abs: float = 0.0
    max_rel: float = 0.0
    p999_rel: float = 0.0
    max_ulp: float = 0.0
    p999_ulp: float = 0.0
    bits_differing: int = 0


@dataclass(frozen=True)
class Gap:
    """Errors of every element of one comparison, flat."""

    absolute: Float
    relative: Float
    steps: Float
    bits_differing: int


def gap(
    got: NDArray[np.floating],
    want: Float,
    *,
    magnitude: Float | None,
    equal_to: NDArray[np.generic] | None = None,
) -> Gap:
    """Errors of a result.

    Args:
        got: the result, float32 or float64.
        want: the oracle in float64, of the same shape.
        magnitude: see :func:`lanes.comparator.within`.
        equal_to: what its bits are promised to be; default: the oracle rounded.
    """
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - want)
        same = (np.isnan(got) & np.isnan(want)) | (got == want)
        error = np.where(same, 0.0, np.where(np.isfinite(error), error, LARGEST)).reshape(-1)
        size = np.abs(want).reshape(-1)
        known = (size > 0) & np.isfinite(size)
        relative = np.minimum(error[known] / size[known], LARGEST)
    steps = np.minimum(distances(got, want, magnitude=magnitude).reshape(-1), LARGEST)
    verdict = equal_values(got, want) if equal_to is None else bitwise_equal(got, equal_to)
    return Gap(error, relative, steps, int(verdict.worst) if got.size else 0)


@dataclass
class Tally:
    """Comparisons of one case, one after the other."""

    gaps: list[Gap] = field(default_factory=list[Gap])
    inputs: int = 0

    def add(self, gaps: Iterable[Gap]) -> None:
        """The comparisons of one more input."""
        self.gaps += gaps
        self.inputs += 1

    @property
    def elements(self) -> int:
        return sum(found.steps.size for found in self.gaps)

    def errors(self) -> Errors:
        """The worst and the 99.9th percentile over everything that was added."""
        absolute, relative, steps = (
            _folded([getattr(found, name) for found in self.gaps])
            for name in ("absolute", "relative", "steps")
        )
        differing = sum(found.bits_differing for found in self.gaps)
        return Errors(*absolute, *relative, *steps, differing)


def _folded(parts: Sequence[Float]) -> tuple[float, float]:
    every = np.concatenate(parts) if parts else np.empty(0)
    if not every.size:
        return 0.0, 0.0
    # The smallest observed value that 99.9 % of all do not exceed: no interpolation.
    rank = int(np.ceil(QUANTILE * every.size)) - 1
    ordered = np.partition(every, rank)
    return float(every.max()), float(ordered[rank])


@dataclass(frozen=True)
class Observed:
    """What a test says of its case.

    Attributes:
        elements: how many were compared; more than none.
        bound: the bound in steps that it was judged by; None where equality was asked for.
        reason: why it was refused; empty when it was not.
    """

    elements: int
    errors: Errors | None
    bound: float | None
    grade: Grade
    seeds: tuple[int, ...]
    counters: Mapping[str, int]
    reason: str = ""

    def record(self) -> dict[str, object]:
        """As plain data, which travels between processes."""
        return {**asdict(self), "seeds": list(self.seeds), "counters": dict(self.counters)}


class Observe:
    """The fixture ``observe``: a test calls it once, before it asserts anything."""

    def __init__(self) -> None:
        self.observed: list[Observed] = []

    def __call__(
        self,
        tally: Tally,
        *,
        grade: Grade,
        bound: float | None = None,
        seeds: Sequence[int] = (),
        counters: Mapping[str, int] | None = None,
    ) -> None:
        """Numbers that were compared with the oracle."""
        self.observed.append(
            Observed(
                tally.elements,
                tally.errors(),
                bound,
                grade,
                tuple(seeds),
                {"inputs": tally.inputs, **(counters or {})},
            )
        )

    def equal(
        self, elements: int, differing: int = 0, *, seeds: Sequence[int] = (), inputs: int = 0
    ) -> None:
        """Things that were asked to be equal: how many were compared, how many differ."""
        errors, counters = Errors(bits_differing=differing), {"inputs": inputs} if inputs else {}
        self.observed.append(Observed(elements, errors, None, "pinned", tuple(seeds), counters))

    def refused(self, reason: str) -> None:
        """The product refused, with this message; nothing was compared."""
        self.observed.append(Observed(0, None, None, "pinned", (), {}, reason))
