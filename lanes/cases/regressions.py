"""Inputs that broke other programs, each with the right answer.

The letters are those of the project's list.

K4 fully masked query, K6 head mapping of grouped queries, K7 activations beyond half precision, K9
subnormals, K10 empty tensors; and the special values of the elementary functions.
"""

from collections.abc import Callable

import numpy as np

from lanes.case import Case, f32
from lanes.weights import block_elements
from retrograd.rows import Row

_INF, _NAN = np.float32(np.inf), np.float32(np.nan)


def cases(row: Row) -> list[Case]:
    """Named cases of a row; none for most rows."""
    rule = _RULES.get(f"{row.op}.{row.direction}")
    return [] if rule is None else rule(row.dtype.removesuffix("-f32"))


def _line(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def _masked(_storage: str) -> list[Case]:
    """K4: the first query sees no key."""
    inputs, settings = _two_queries()
    outputs = {"o": f32(2, 2), "L": f32(2, 1)}
    return [Case("K4-masked-row", "regression", inputs, outputs, {"T": 2, "S": 2}, settings)]


def _masked_backward(_storage: str) -> list[Case]:
    inputs, settings = _two_queries()
    o, log_sum = (
        np.array([[0, 0], [4.5, 5.5]], dtype=np.float32),
        _line([-np.inf, np.log(2.0)]).reshape(2, 1),
    )
    fields = {"d_o": np.ones((2, 2), dtype=np.float32), **inputs, "o": o, "L": log_sum}
    outputs = {"dq": f32(2, 2), "dk": f32(2, 2), "dv": f32(2, 2)}
    masked = Case("K4-masked-row", "regression", fields, outputs, {"T": 2, "S": 2}, settings)
    return [masked, _grouped()]


def _two_queries() -> tuple[dict[str, np.ndarray], dict[str, int | float]]:
    """Equal logits for the second query: a uniform mean of the two values."""
    inputs = {
        "q": np.array([[1, 2], [0, 0]], dtype=np.float32),
        "k": np.array([[3, 1], [2, -1]], dtype=np.float32),
        "v": np.array([[4, 5], [5, 6]], dtype=np.float32),
        "key_begin": np.array([0, 0], dtype=np.int32),
        "key_end": np.array([0, 2], dtype=np.int32),
    }
    return inputs, {"heads": 1, "kv_heads": 1, "head_size": 2, "scale": 1.0}


def _grouped() -> Case:
    """K6: one token, six query heads over two key-value heads, dO = 1..6: dv = [1+2+3, 4+5+6]."""
    zero, one = np.zeros((1, 1), dtype=np.int32), np.ones((1, 1), dtype=np.int32)
    inputs = {
        "d_o": np.arange(1, 7, dtype=np.float32).reshape(1, 6),
        "q": np.full((1, 6), 0.5, dtype=np.float32),
        "k": np.full((1, 2), 2.0, dtype=np.float32),
        "v": np.array([[3, 7]], dtype=np.float32),
        "o": np.array([[3, 3, 3, 7, 7, 7]], dtype=np.float32),
        "L": np.ones((1, 6), dtype=np.float32),
        "key_begin": zero.reshape(1),
        "key_end": one.reshape(1),
    }
    settings = {"heads": 6, "kv_heads": 2, "head_size": 1, "scale": 1.0}
    outputs = {"dq": f32(1, 6), "dk": f32(1, 2), "dv": f32(1, 2)}
    # One key has weight exp(s - L) = 1 exactly, so that the sum over a group is a sum of whole
    # numbers.
    exact = frozenset({"dq", "dk", "dv"})
    return Case(
        "K6-group-order",
        "regression",
        inputs,
        outputs,
        {"T": 1, "S": 1},
        settings,
        exact=exact,
        expected={"dv": _line([6, 15]).reshape(1, 2)},
    )


def _large_activation(storage: str) -> list[Case]:
    """K7: one feature of 70,000, weight 1, in 63 and in 64 tokens."""
    if storage not in {"f32", "f16", "bf16"}:
        return []
    one = {
        "f32": _line([1.0]),
        "f16": np.array([1], np.float16).view(np.uint8),
        "bf16": np.array([0x3F80], np.uint16).view(np.uint8),
    }
    assert block_elements(storage) == 1
    return [
        Case(
            f"K7-beyond-half-{t}-tokens",
            "regression",
            {"x": np.full((t, 1), 70000, dtype=np.float32), "w": one[storage].reshape(1, -1)},
            {"y": f32(t, 1)},
            {"T": t, "N": 1, "K": 1},
            {"alpha": 1.0},
            decoded={"w": np.ones((1, 1))},
            expected={"y": np.full((t, 1), 70000, dtype=np.float32)},
        )
        for t in (63, 64)
    ] + ([_subnormal_product()] if storage == "f32" else [])


def _subnormal_product() -> Case:
    """K9: the smallest subnormal times one."""
    tiny = np.full((4, 1), 1, dtype=np.int32).view(np.float32)
    one = np.ones((1, 1), dtype=np.float32)
    return Case(
        "K9-subnormal",
        "regression",
        {"x": tiny, "w": one},
        {"y": f32(4, 1)},
        {"T": 4, "N": 1, "K": 1},
        {"alpha": 1.0},
        decoded={"w": np.ones((1, 1))},
        expected={"y": tiny.copy()},
    )


def _subnormal_sum(_storage: str) -> list[Case]:
    """K9, and the classes an addition must keep."""
    tiny = np.full(4, 1, dtype=np.int32).view(np.float32)
    a = np.concatenate([tiny, _line([-0.0, 0.0, np.inf, np.inf, 3e38, np.nan])])
    b = np.concatenate(
        [np.zeros(4, dtype=np.float32), _line([-0.0, -0.0, 1.0, -np.inf, 3e38, 1.0])]
    )
    y = np.concatenate([tiny, _line([-0.0, 0.0, np.inf, np.nan, np.inf, np.nan])])
    return [
        Case(
            "K9-classes",
            "regression",
            {"a": a, "b": b},
            {"y": f32(10)},
            {"n": 10},
            expected={"y": y},
        )
    ]


def _empty_sum(_storage: str) -> list[Case]:
    """K10: the sum over no rows of two columns."""
    inputs = {"dy": np.zeros((0, 2), dtype=np.float32)}
    return [
        Case(
            "K10-empty-sum",
            "regression",
            inputs,
            {"db": f32(2)},
            {"T": 0, "C": 2},
            expected={"db": _line([0, 0])},
        )
    ]


def _empty_swiglu(_storage: str) -> list[Case]:
    """K10: nothing in, nothing out; and the limits of the gate."""
    none = np.zeros(0, dtype=np.float32)
    g = _line([-np.inf, -200.0, -0.0, 0.0, 200.0, np.inf, np.nan, 1.0])
    u = _line([1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, np.nan])
    y = _line([-0.0, -0.0, -0.0, 0.0, 400.0, np.inf, np.nan, np.nan])
    return [
        Case("K10-empty", "regression", {"g": none, "u": none}, {"y": f32(0)}, {"n": 0}),
        Case("limits", "regression", {"g": g, "u": u}, {"y": f32(8)}, {"n": 8}, expected={"y": y}),
    ]


def _exp_values(_storage: str) -> list[Case]:
    x = _line([-np.inf, np.inf, np.nan, 0.0, -0.0, 1e-45, 89.0, -104.0])
    y = _line([0.0, np.inf, np.nan, 1.0, 1.0, 1.0, np.inf, 0.0])
    return [
        Case("special-values", "regression", {"x": x}, {"y": f32(8)}, {"n": 8}, expected={"y": y})
    ]


def _log_values(_storage: str) -> list[Case]:
    x = _line([0.0, -0.0, 1.0, np.inf, -1.0, -np.inf, np.nan, -1e-45])
    y = _line([-np.inf, -np.inf, 0.0, np.inf, np.nan, np.nan, np.nan, np.nan])
    return [
        Case("special-values", "regression", {"x": x}, {"y": f32(8)}, {"n": 8}, expected={"y": y})
    ]


def _fill_values(_storage: str) -> list[Case]:
    values = {
        "nan": _NAN,
        "infinity": _INF,
        "negative-zero": np.float32(-0.0),
        "K9-subnormal": np.float32(1e-45),
    }
    return [
        Case(
            name,
            "regression",
            {},
            {"y": f32(5)},
            {"n": 5},
            {"value": float(value)},
            expected={"y": np.full(5, value, dtype=np.float32)},
        )
        for name, value in values.items()
    ]


_RULES: dict[str, Callable[[str], list[Case]]] = {
    "attention.forward": _masked,
    "attention.backward": _masked_backward,
    "matmul.forward": _large_activation,
    "add.forward": _subnormal_sum,
    "bias.backward_weight": _empty_sum,
    "swiglu.forward": _empty_swiglu,
    "exp.forward": _exp_values,
    "log.forward": _log_values,
    "fill.forward": _fill_values,
}
