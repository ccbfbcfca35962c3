"""The same sums in another order: a case with permuted operands, and the way back.

A permutation of the summed axis changes no mathematical value and every rounding, so the result is
as right as the original and no copy of it. Where blocks of a format hold the axis together, the
kernel for float32 weights computes the same product from the decoded values. Pinned rows promise an
order and have no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lanes.case import Case
from retrograd.rows import Row

Stored = NDArray[np.generic]
Order = NDArray[np.intp]
Back = Callable[[Mapping[str, NDArray[np.floating]]], dict[str, NDArray[np.floating]]]
Moved = tuple[dict[str, Stored], Back]


@dataclass(frozen=True)
class Reordered:
    """A case in another order.

    Attributes:
        row: the row that runs it: the case's own, or that of float32 weights.
        back: brings its outputs back to the first one's order.
    """

    row: Row
    case: Case
    back: Back


def reordered(row: Row, case: Case, rng: np.random.Generator) -> Reordered | None:
    """The case with its sums in a random other order; None where it has none."""
    rule = _RULES.get(f"{row.op}.{row.direction}")
    if rule is None or row.contract == "pinned" or 0 in case.dims.values():
        return None
    inputs, back = rule(case, rng)
    changed = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    wide = row.direction == "forward" and row.op == "matmul"
    other = replace(case, inputs={**case.inputs, **changed})
    return Reordered(replace(row, dtype="f32") if wide else row, other, back)


def _unpermuted(field: str, order: Order) -> Back:
    """Columns of one output back to their places."""
    inverse = np.argsort(order)
    return lambda found: {
        name: np.ascontiguousarray(a[..., inverse]) if name == field else a
        for name, a in found.items()
    }


def _columns(case: Case, names: tuple[str, ...], order: Order) -> dict[str, Stored]:
    return {name: case.inputs[name][..., order] for name in names if name in case.inputs}


def _rows(case: Case, names: tuple[str, ...], order: Order) -> dict[str, Stored]:
    return {name: case.inputs[name][order] for name in names if name in case.inputs}


def _inner(case: Case, rng: np.random.Generator) -> Moved:
    """Product over K: columns of x and of the decoded weight."""
    order = rng.permutation(case.dims["K"])
    decoded = case.decoded["w"].astype(np.float32)
    return {"x": case.inputs["x"][:, order], "w": decoded[:, order]}, dict


def _outer(case: Case, rng: np.random.Generator) -> Moved:
    """Product over N: rows of the weight and columns of dy."""
    order = rng.permutation(case.dims["N"])
    return {**_columns(case, ("dy",), order), **_rows(case, ("w",), order)}, dict


def _tokens(case: Case, rng: np.random.Generator) -> Moved:
    """Sum over tokens."""
    order = rng.permutation(case.dims["T"])
    return _rows(case, ("dy", "x", "r"), order), dict


def _channels(case: Case, rng: np.random.Generator) -> Moved:
    """Mean over a token's channels."""
    order = rng.permutation(case.dims["C"])
    field = "y" if "y" in case.outputs else "dx"
    return _columns(case, ("x", "w", "dy", "c"), order), _unpermuted(field, order)


def _vocabulary(case: Case, rng: np.random.Generator) -> Moved:
    """Sum over the vocabulary."""
    order = rng.permutation(case.dims["V"])
    targets = case.inputs["targets"].astype(np.int64)
    place = np.argsort(order).astype(np.int32)
    moved = np.where(targets < 0, targets, place[np.maximum(targets, 0)]).astype(np.int32)
    return {"w": case.inputs["w"][order], "targets": moved}, dict


def _keys(case: Case, rng: np.random.Generator) -> Moved:
    """Keys from the last to the first, queries and the elements of a head in any order."""
    t, s, size = case.dims["T"], case.dims["S"], int(case.settings["head_size"])
    queries, inside, values = rng.permutation(t), rng.permutation(size), rng.permutation(size)

    def within(array: Stored, order: Order) -> Stored:
        return array.reshape(len(array), -1, size)[:, :, order].reshape(array.shape)

    old = case.inputs
    inputs: dict[str, Stored] = {
        "q": within(old["q"], inside)[queries],
        "k": within(old["k"], inside)[::-1],
        "v": within(old["v"], values)[::-1],
        "key_begin": (s - old["key_end"].astype(np.int64))[queries].astype(np.int32),
        "key_end": (s - old["key_begin"].astype(np.int64))[queries].astype(np.int32),
    }
    inputs |= {n: within(old[n], values)[queries] for n in ("d_o", "o") if n in old}
    inputs |= _rows(case, ("L",), queries)
    back_queries, back = (
        np.argsort(queries),
        {"o": values, "dv": values, "dq": inside, "dk": inside},
    )

    def restore(found: Mapping[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        out: dict[str, NDArray[np.floating]] = {}
        for name, array in found.items():
            placed = array[::-1] if name in {"dk", "dv"} else array[back_queries]
            if name in back:
                grouped = placed.reshape(len(placed), -1, size)
                placed = grouped[:, :, np.argsort(back[name])].reshape(array.shape)
            out[name] = np.ascontiguousarray(placed)
        return out

    return inputs, restore


_RULES: dict[str, Callable[[Case, np.random.Generator], Moved]] = {
    "matmul.forward": _inner,
    "matmul.backward": _outer,
    "matmul.backward_weight": _tokens,
    "rms_norm.forward": _channels,
    "rms_norm.backward": _channels,
    "rms_norm.backward_weight": _tokens,
    "linear_cross_entropy.forward": _vocabulary,
    "attention.forward": _keys,
    "attention.backward": _keys,
}
