"""The cases of a plan: which sizes meet which corpora under which seeds.

``full``: every size in every corpus under two seeds. ``fast``: a fixed sample in which every size
of a float32 row appears in one corpus, and a row per storage format sees each corpus once. Weights
of more than a quarter of a million elements are left to a few formats: all of them are decoded
row by row by one template, and the products that follow read float32. Both plans add the row's
regression cases and what was captured from the real model.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from math import prod
from typing import Protocol, cast

from lanes.case import Case
from lanes.cases import captured, regressions
from lanes.corpora import CORPORA, Draw, draw
from lanes.trial import storage_of
from retrograd.rows import Row

PLANS: Mapping[str, tuple[int, ...]] = {"fast": (0,), "full": (0, 1)}
_FEW_ELEMENTS = 1 << 18
# Formats that keep large weights: those of the real model, and one with blocks of 256.
_LARGE = {"fast": frozenset({"f32", "q4_1"}), "full": frozenset({"f32", "q4_1", "q8_0", "q4_k"})}
REGRESSION, CAPTURED = "regression", captured.CAPTURED
MEASURE_SEEDS = tuple(range(8))


class NoCasesError(Exception):
    """A declared row has nothing that could fail."""


class CaseModule(Protocol):
    """What a file of ``lanes/cases`` defines."""

    LADDER: tuple[int, int]
    SIZES: Mapping[str, list[dict[str, int]]]

    def build(
        self, direction: str, storage: str, dims: Mapping[str, int], draw: Draw, name: str
    ) -> Case:
        """One case of a size from one corpus."""
        ...


def corpora(row: Row, plan: str) -> dict[str, int]:
    """Corpora in which a plan has cases of a row, and how many; no case is made.

    Raises:
        NoCasesError: no size is declared.
        KeyError: the plan is unknown.
    """
    sizes = _module(row).SIZES[row.direction]
    storage, seeds = storage_of(row), len(PLANS[plan])
    found = {
        name: seeds * len(_sample(sizes, i, storage, fast=plan == "fast"))
        for i, name in enumerate(CORPORA)
    }
    found[CAPTURED] = captured.feeds(row)
    found[REGRESSION] = len(regressions.cases(row))
    return {name: count for name, count in found.items() if count}


def cases(row: Row, plan: str, corpus: str | None = None) -> Iterator[Case]:
    """All cases of a row in a plan, made one at a time; of one corpus or of all.

    Raises:
        NoCasesError: none of them compared anything; raised when they run out.
        KeyError: the plan is unknown.
    """
    compared = 0
    fast = plan == "fast"
    for case in chain(
        *(drawn(row, seed, fast=fast, corpus=corpus) for seed in PLANS[plan]), fixed(row, corpus)
    ):
        compared += any(prod(shape) for shape, _ in case.outputs.values())
        yield case
    if not compared:
        raise NoCasesError(
            f"[{row.id}] every declared row has cases; none found; write lanes/cases/{row.op}.py"
        )


def fixed(row: Row, corpus: str | None = None) -> list[Case]:
    """The cases of a row that no seed changes, of one corpus or of all."""
    found = captured.cases(row) if corpus in (None, CAPTURED) else []
    return [*found, *(regressions.cases(row) if corpus in (None, REGRESSION) else [])]


def drawn(row: Row, seed: int, *, fast: bool, corpus: str | None = None) -> Iterator[Case]:
    """The sampled cases of one seed, of one corpus or of all."""
    module = _module(row)
    sizes = module.SIZES[row.direction]
    for i, name in enumerate(CORPORA):
        if corpus not in (None, name):
            continue
        for dims in _sample(sizes, i, storage_of(row), fast=fast):
            low, high = module.LADDER
            # The generator sees the size but not the row: the same numbers meet every format and
            # direction.
            source = draw(name, row.op, tuple(dims.items()), seed=seed, low=low, high=high)
            yield module.build(
                row.direction, storage_of(row), dims, source, _name(name, dims, seed)
            )


def _module(row: Row) -> CaseModule:
    try:
        module = cast(CaseModule, import_module(f"lanes.cases.{row.op}"))
        _ = module.SIZES[row.direction]
    except (ModuleNotFoundError, KeyError) as error:
        raise NoCasesError(
            f"[{row.id}] every declared row has cases; {error!r}; write lanes/cases/{row.op}.py"
        ) from error
    return module


def _sample(
    sizes: list[dict[str, int]], corpus: int, storage: str, *, fast: bool
) -> list[dict[str, int]]:
    large = storage in _LARGE["fast" if fast else "full"]
    within = [dims for dims in sizes if large or _stored_elements(dims) <= _FEW_ELEMENTS]
    if not fast:
        return within
    if storage == "f32":
        return within[corpus :: len(CORPORA)]
    # Every format meets the same few sizes, spread over the list; the only one of a corpus has to
    # hold elements.
    filled = [dims for dims in within if all(dims.values())]
    return [filled[(3 * corpus + 4) % len(filled)]]


def _stored_elements(dims: Mapping[str, int]) -> int:
    """Elements of the weight, its rows rounded up to the longest block."""
    rows, columns = dims.get("N", dims.get("V", 1)), dims.get("K", dims.get("C", 1))
    return rows * (-(-columns // 256) * 256)


def _name(corpus: str, dims: Mapping[str, int], seed: int) -> str:
    return "-".join([corpus, *(f"{n}{v}" for n, v in dims.items()), f"seed{seed}"])
