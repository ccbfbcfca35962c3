"""The figures of one run: what was compared, how far apart it was, and which bound held it.

Distances are in steps, as everywhere in ``tolerances.toml``: one step is epsilon of float32 times
the largest element of the wanted array.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lanes import tolerances, whole
from lanes.tolerances import Tolerance, bound_of, lawful_bound
from lanes.trial import variants

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Float64s = npt.NDArray[np.float64]
EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes:
        name: subject, as in ``tolerances.toml`` where it has a bound.
        seen: the figures in words.
        n: elements, strings or tokens compared.
        verdict: ``within``, ``equal``, ``recorded``, ``FAILED`` or ``figure only``.
    """

    name: str
    seen: str
    n: int
    verdict: str


@dataclass
class Ledger:
    """Collects figures; compares with recorded bounds, or measures them when ``recording``."""

    recording: bool
    figures: list[Figure] = field(default_factory=list[Figure])
    measured: dict[str, list[Tolerance]] = field(default_factory=dict[str, list[Tolerance]])

    def within(self, name: str, got: Floats, want: Float64s, *, ceiling: float) -> None:
        """Every element of ``got`` lies within the bound recorded for ``name``.

        Args:
            name: subject in ``tolerances.toml``.
            got: ours, any shape.
            want: the peer's, same shape.
            ceiling: derived, in steps.

        Raises:
            AssertionError: shapes differ, nothing was compared, or the bound does not hold.
            NoBound: nothing was ever recorded for the subject.
        """
        self.within_each(name, [(got, want)], ceiling=ceiling)

    def within_each(
        self, name: str, pairs: Sequence[tuple[Floats, Float64s]], *, ceiling: float
    ) -> None:
        """The same for several arrays, each measured against its own largest element."""
        assert pairs, f"{name}: nothing to compare"
        assert all(got.shape == want.shape for got, want in pairs), f"{name}: shapes differ"
        steps = np.concatenate([relative(got, want) for got, want in pairs])
        gaps = np.concatenate([np.abs(got - want).reshape(-1) for got, want in pairs])
        assert steps.size > 0, f"{name}: nothing to compare"
        assert np.isfinite(steps).all(), f"{name}: a distance is not finite"
        worst, p999 = float(steps.max()), float(np.quantile(steps, 0.999))
        seen = f"max {gaps.max():.3g}, p99.9 {np.quantile(gaps, 0.999):.3g} absolute; "
        seen += f"max {worst * EPSILON:.3g}, p99.9 {p999 * EPSILON:.3g} relative"
        if self.recording:
            bound = lawful_bound(worst, ceiling)
            entry = Tolerance(steps.size, 1, _environments(), worst, p999, ceiling, bound)
            self.measured.setdefault(name, []).append(entry)
            self.figures.append(Figure(name, seen, steps.size, "recorded"))
            return
        bound = bound_of(name, tolerances.read())
        holds = worst <= bound
        seen += f"; bound {bound * EPSILON:.3g}"
        self.figures.append(Figure(name, seen, steps.size, "within" if holds else "FAILED"))
        assert holds, f"{name}: {worst:.4g} steps apart, bound {bound:g}"

    def beyond(self, name: str, got: Floats, want: Float64s) -> None:
        """A planted fault: ``got`` must break the bound, or the comparison could not fail."""
        if not self.recording:
            bound = bound_of(name, tolerances.read())
            assert relative(got, want).max() > bound, f"{name}: the bound {bound:g} misses a fault"

    def equal(self, name: str, mismatches: list[str], n: int) -> None:
        """All of ``n`` comparisons came out equal."""
        assert n > 0, f"{name}: nothing to compare"
        seen = f"{len(mismatches)} differ"
        self.figures.append(Figure(name, seen, n, "FAILED" if mismatches else "equal"))
        assert mismatches == [], f"{name}: {mismatches[:5]}"

    def tell(self, name: str, seen: str, n: int) -> None:
        """A figure for the log that decides nothing."""
        self.figures.append(Figure(name, seen, n, "figure only"))

    def record(self) -> list[str]:
        """Merges what was measured into ``tolerances.toml``; returns one line a subject."""
        table = tolerances.read()
        lines: list[str] = []
        for name, entries in self.measured.items():
            worst = max(entry.worst for entry in entries)
            limit = max(entry.ceiling for entry in entries)
            new = Tolerance(
                samples=sum(entry.samples for entry in entries),
                seeds=len(entries),
                environments=_environments(),
                worst=float(f"{worst:.6g}"),
                p999=float(f"{max(entry.p999 for entry in entries):.6g}"),
                ceiling=float(f"{limit:.6g}"),
                bound=lawful_bound(worst, limit),
            )
            table[name] = tolerances.merged(table.get(name), new, name)
            lines.append(f"{name}: bound {table[name].bound:g} steps from {new.seeds} seeds")
        tolerances.PATH.write_text(tolerances.text(table), encoding="utf-8")
        return lines


def _environments() -> tuple[str, ...]:
    """The class that trainers and peers were run on: the best variant of this machine."""
    return (f"cpu-{variants()[-1]}",)


def relative(got: Floats, want: Float64s) -> Float64s:
    """Distances in steps of float32, in whichever dtype a difference of logits was formed."""
    return whole.relative(got.astype(np.float32), want)
