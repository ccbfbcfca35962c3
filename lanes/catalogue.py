"""The cases of a plan: which sizes meet which corpora under which seeds.

``full``: every size in every corpus under two seeds. ``fast``: a fixed sample in which every size of a float32 row
appears in one corpus, and a row per storage format sees each corpus once. Both add the row's regression cases.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Protocol, cast

from lanes.case import Case
from lanes.cases import regressions
from lanes.corpora import CORPORA, Draw, draw
from lanes.trial import storage_of
from retrograd.rows import Row

PLANS: Mapping[str, tuple[int, ...]] = {"fast": (0,), "full": (0, 1)}
MEASURE_SEEDS = tuple(range(8))


class NoCases(Exception):
    """A declared row has nothing that could fail."""


class CaseModule(Protocol):
    """What a file of ``lanes/cases`` defines."""

    LADDER: tuple[int, int]
    SIZES: Mapping[str, list[dict[str, int]]]

    def build(self, direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str) -> Case:
        """One case of a size from one corpus."""
        ...


def cases(row: Row, plan: str) -> list[Case]:
    """All cases of a row in a plan.

    Raises:
        NoCases: there is none.
        KeyError: the plan is unknown.
    """
    found = [case for seed in PLANS[plan] for case in drawn(row, seed, fast=plan == "fast")]
    found += regressions.cases(row)
    if not any(shape and min(shape) for case in found for shape, _ in case.outputs.values()):
        raise NoCases(f"[{row.id}] every declared row has cases; none found; write lanes/cases/{row.op}.py")
    return found


def drawn(row: Row, seed: int, *, fast: bool) -> Iterator[Case]:
    """The sampled cases of one seed."""
    try:
        module = cast(CaseModule, import_module(f"lanes.cases.{row.op}"))
        sizes = module.SIZES[row.direction]
    except (ModuleNotFoundError, KeyError) as error:
        raise NoCases(f"[{row.id}] every declared row has cases; {error!r}; write lanes/cases/{row.op}.py") from error
    for i, corpus in enumerate(CORPORA):
        for dims in _sample(sizes, i, storage_of(row)) if fast else sizes:
            low, high = module.LADDER
            # The generator sees the size but not the row: the same numbers meet every format and direction.
            source = draw(corpus, row.op, tuple(dims.items()), seed=seed, low=low, high=high)
            yield module.build(row.direction, storage_of(row), dims, source, _name(corpus, dims, seed))


def _sample(sizes: list[dict[str, int]], corpus: int, storage: str) -> list[dict[str, int]]:
    if storage == "f32":
        return sizes[corpus :: len(CORPORA)]
    # Every format meets the same few sizes, spread over the list; the last size closes every list.
    return [sizes[(3 * corpus + 4) % len(sizes)]]


def _name(corpus: str, dims: Mapping[str, int], seed: int) -> str:
    return "-".join([corpus, *(f"{n}{v}" for n, v in dims.items()), f"seed{seed}"])
