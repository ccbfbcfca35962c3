"""Running one case of one row, and judging it: oracle, replay, variants, thread counts."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lanes.case import Case
from lanes.ceilings import ceiling
from lanes.comparator import Verdict, bitwise_equal, distances, equal_values, within
from lanes.guards import Guarded, holding, poisoned
from lanes.observation import Gap, gap
from retrograd.backends import Device, open_device
from retrograd.ops import OPS
from retrograd.rows import Row
from retrograd.runtime.launch import launch

Stored = NDArray[np.generic]
DTYPES = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
THREADS = (2, 4)
VARIANTS = ("portable", "avx2")


@dataclass(frozen=True)
class Failure:
    """One broken statement about one row."""

    row_id: str
    case: str
    reason: str

    def __str__(self) -> str:
        return f"{self.row_id} [{self.case}] {self.reason}"


@dataclass(frozen=True)
class Result:
    """What a launch left behind."""

    outputs: Mapping[str, NDArray[np.floating]]
    strays: tuple[str, ...]


@dataclass(frozen=True)
class Right:
    """What is right for a case: oracle, sizes of terms, and the replay of a pinned row."""

    want: Mapping[str, NDArray[np.float64]]
    sizes: Mapping[str, NDArray[np.float64]]
    replayed: Mapping[str, Stored]


@dataclass
class Observation:
    """What was seen of one case.

    Attributes:
        failures: broken statements, of any variant.
        steps: distance of every element from the oracle, on every variant.
        gaps: errors of the best variant, which is the environment's class.
    """

    failures: list[Failure] = field(default_factory=list[Failure])
    steps: list[NDArray[np.float64]] = field(default_factory=list[NDArray[np.float64]])
    gaps: list[Gap] = field(default_factory=list[Gap])


@cache
def device(threads: int, isa: str | None) -> Device:
    """An open device, shared by all cases."""
    return open_device("cpu", threads=threads, isa=isa)


@cache
def variants() -> tuple[str, ...]:
    """Instruction-set variants this machine runs; the best one last."""
    best = str(device(1, None).probe()["isa"])
    return VARIANTS[: VARIANTS.index(best) + 1]


def storage_of(row: Row) -> str:
    """Storage format in the dtype slot of a row's id."""
    return row.dtype.removesuffix("-f32")


def oracle_of(row: Row) -> Callable[..., Mapping[str, NDArray[np.float64]]]:
    """The row's float64 definition, found by file and function name.

    Raises:
        ModuleNotFoundError, AttributeError: there is none, which fails the row.
    """
    return getattr(import_module(f"oracles.ops.{row.op}"), row.direction)


def magnitude_of(row: Row) -> Callable[..., Mapping[str, NDArray[np.float64]]] | None:
    """Sizes of terms, where the oracle's file defines them."""
    return getattr(import_module(f"oracles.ops.{row.op}"), f"{row.direction}_magnitude", None)


def replay_of(row: Row) -> Callable[..., Mapping[str, Stored]] | None:
    """The float32 replay of a pinned row, where one is written."""
    name = f"oracles.pinned.{row.op}"
    if row.contract != "pinned" or find_spec(name) is None:
        return None
    return getattr(import_module(name), row.direction, None)


def execute(on: Device, row: Row, case: Case, *, alias: Mapping[str, str]) -> Result:
    """Launches once on guarded buffers.

    Args:
        alias: output field -> input field whose buffer it takes.
    """
    held = {n: holding(n, a, written=n in alias.values()) for n, a in case.inputs.items()}
    written: dict[str, Guarded] = {}
    for name, (shape, dtype) in case.outputs.items():
        if name in alias:
            written[name] = held[alias[name]]
        elif name in case.initial:
            written[name] = holding(name, case.initial[name], written=True)
        else:
            written[name] = poisoned(name, shape, DTYPES[dtype])
    buffers = held | written | _scratch(on, row, case)
    arrays = {n: guarded.array for n, guarded in buffers.items()}
    launch(on, row.id, **arrays, **case.dims, **case.settings)
    strays = [text for guarded in buffers.values() for text in guarded.faults()]
    strays += [
        f"'{n}': {guarded.unwritten()} elements were not written"
        for n, guarded in written.items()
        if n not in alias and n not in case.initial and guarded.unwritten()
    ]
    outputs = {n: cast(NDArray[np.floating], guarded.array) for n, guarded in written.items()}
    return Result(outputs, tuple(strays))


def observe(row: Row, case: Case, *, bound: float | None, on: Device | None = None) -> Observation:
    """Everything that must hold of a case.

    Args:
        bound: recorded bound; None while measuring, when distances are collected and only ceilings
            and replays judge.
        on: judge this device alone (planted faults); default: every variant, thread count and
            aliasing.
    """
    seen, right = Observation(), right_of(row, case)
    devices = [on] if on is not None else [device(1, isa) for isa in variants()]
    results: list[Result] = []
    for dev in devices:
        result = execute(dev, row, case, alias={})
        results.append(result)
        seen.failures += [_failure(row, case, dev, text) for text in result.strays]
        _judge(row, case, dev, result, bound, seen, right)
    if on is None and bound is not None:
        seen.gaps += _gaps(row, results[-1], right)
        for text in _invariance(row, case, results):
            seen.failures.append(Failure(row.id, case.name, text))
    return seen


def wanted(
    row: Row, case: Case
) -> tuple[Mapping[str, NDArray[np.float64]], Mapping[str, NDArray[np.float64]]]:
    """Oracle values and magnitudes of a case."""
    fields: dict[str, object] = {n: _wide(a) for n, a in {**case.inputs, **case.initial}.items()}
    fields |= dict(case.decoded) | dict(case.settings) | _empty_outputs(row, case, np.float64)
    oracle, sizes = oracle_of(row), magnitude_of(row)
    with np.errstate(all="ignore"):
        want = oracle(**accepted(oracle, fields))
        return want, {} if sizes is None else sizes(**accepted(sizes, fields))


def aliases(row: Row, case: Case) -> Iterator[dict[str, str]]:
    """Output in an input's buffer.

    Where the signature allows it, and an accumulator over its own addend.
    """
    if row.op not in OPS:
        return
    kernel = OPS[row.op].kernels[row.direction]
    pairs = dict(kernel.in_place)
    if "c" in kernel.inputs and len(kernel.outputs) == 1:
        pairs[kernel.outputs[0]] = "c"
    for out, source in pairs.items():
        if out in case.outputs and source in case.inputs:
            yield {out: source}


def judgements(
    row: Row,
    case: Case,
    name: str,
    got: NDArray[np.floating],
    right: Right,
    *,
    bound: float | None,
) -> list[tuple[str, Verdict]]:
    """Everything that one output of a case is held against, each with its verdict.

    Args:
        name: the output.
        bound: recorded bound; None to judge by the derived ceiling.
    """
    allowed = allowed_steps(row, case, bound)
    near = within(got, right.want[name], bound=allowed, magnitude=right.sizes.get(name))
    found: list[tuple[str, Verdict]] = [("against the oracle", near)]
    if name in case.exact:
        found.append(("on the lattice", equal_values(got, right.want[name])))
    if name in case.expected:
        found.append(("against the written answer", bitwise_equal(got, case.expected[name])))
    if name in right.replayed:
        found.append(("against the replay", bitwise_equal(got, right.replayed[name])))
    return found


def allowed_steps(row: Row, case: Case, bound: float | None) -> float:
    """The recorded bound, or the case's own derived ceiling where that is lower."""
    limit = ceiling(row.op, row.direction, {**case.dims, **case.settings})
    return limit if bound is None else min(bound, limit)


def _judge(
    row: Row,
    case: Case,
    dev: Device,
    result: Result,
    bound: float | None,
    seen: Observation,
    right: Right,
) -> None:
    want, sizes = right.want, right.sizes
    for name, got in result.outputs.items():
        if got.size == 0:
            if want[name].size:
                seen.failures.append(
                    _failure(
                        row, case, dev, f"'{name}' is empty; the oracle has {want[name].shape}"
                    )
                )
            continue
        seen.steps.append(distances(got, want[name], magnitude=sizes.get(name)).reshape(-1))
        seen.failures += [
            _failure(row, case, dev, f"'{name}' {how}: {v.reason}")
            for how, v in judgements(row, case, name, got, right, bound=bound)
            if not v.holds
        ]


def right_of(row: Row, case: Case) -> Right:
    """Oracle, sizes of terms and replay of a case."""
    return Right(*wanted(row, case), _replayed(row, case))


def _gaps(row: Row, result: Result, right: Right) -> Iterator[Gap]:
    """Errors of every output; a pinned one without a replay promises its own bits alone."""
    for name, got in result.outputs.items():
        if got.size and got.shape == right.want[name].shape:
            pinned = right.replayed.get(name, got) if row.contract == "pinned" else None
            magnitude = right.sizes.get(name)
            yield gap(got, right.want[name], magnitude=magnitude, equal_to=pinned)


def _invariance(row: Row, case: Case, results: list[Result]) -> Iterator[str]:
    """Bits that must not depend on threads, aliasing or (pinned rows) instruction set."""
    base = results[-1]
    if row.contract == "pinned":
        yield from _differences(base, results[0], f"between {variants()[-1]} and {variants()[0]}")
    for isa, alone in zip(variants(), results, strict=True):
        for threads in THREADS:
            other = execute(device(threads, isa), row, case, alias={})
            yield from other.strays
            yield from _differences(alone, other, f"{isa}: between 1 and {threads} threads")
    for alias in aliases(row, case):
        other = execute(device(1, variants()[-1]), row, case, alias=alias)
        yield from other.strays
        yield from _differences(
            base, other, f"with the output in the buffer of '{next(iter(alias.values()))}'"
        )


def _differences(base: Result, other: Result, where: str) -> Iterator[str]:
    for name, array in base.outputs.items():
        verdict = bitwise_equal(other.outputs[name], array)
        if array.size and not verdict.holds:
            yield f"'{name}' {where}: {verdict.reason}"


def _replayed(row: Row, case: Case) -> Mapping[str, Stored]:
    replay = replay_of(row)
    if replay is None:
        return {}
    fields: dict[str, object] = {**case.inputs, **case.initial, **case.settings}
    fields |= {n: a.astype(np.float32) for n, a in case.decoded.items()}
    fields |= _empty_outputs(row, case, np.float32)
    with np.errstate(all="ignore"):
        return replay(**accepted(replay, fields))


def _empty_outputs(row: Row, case: Case, dtype: type) -> dict[str, object]:
    """Ops without inputs (fill) take the shape of their output from the output itself."""
    if case.inputs:
        return {}
    return {
        n: np.zeros(shape, dtype=dtype)
        for n, (shape, _) in case.outputs.items()
        if row.op == "fill"
    }


def _scratch(on: Device, row: Row, case: Case) -> dict[str, Guarded]:
    if row.op not in OPS:
        return {}
    rule = OPS[row.op].kernels[row.direction].scratch
    if rule is None:
        return {}
    n_bytes = rule(case.dims, case.settings, on.threads, storage_of(row))
    return {"scratch": poisoned("scratch", (n_bytes // 4,), np.dtype(np.float32))}


def accepted(function: Callable[..., object], fields: Mapping[str, object]) -> dict[str, object]:
    """Those fields that a function takes by name."""
    names = inspect.signature(function).parameters
    return {n: v for n, v in fields.items() if n in names}


def _wide(array: Stored) -> Stored:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _failure(row: Row, case: Case, dev: Device, text: str) -> Failure:
    return Failure(row.id, case.name, f"{dev.probe()['isa']}: {text}")
