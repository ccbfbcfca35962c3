"""The oracles themselves.

Mpmath on samples, central differences for every gradient, known answers, independence.
"""

import ast
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import mpmath as mp
import numpy as np
import pytest

from oracles.ops import (
    adamw,
    attention,
    bias,
    clip,
    dropout,
    embedding,
    exp,
    linear_cross_entropy,
    log,
    matmul,
    rms_norm,
    rope,
    sum_squares,
    swiglu,
)
from retrograd.rows import declared_rows

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {"numpy", "mpmath", "jaxtyping", "oracles", "collections", "dataclasses", "math"}
Arrays = Mapping[str, np.ndarray]


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _slope(f: Callable[[np.ndarray], float], x: np.ndarray, direction: np.ndarray) -> float:
    """Central difference, extrapolated over two step sizes: error of order h^4."""

    def at(h: float) -> float:
        return (f(x + h * direction) - f(x - h * direction)) / (2 * h)

    return (4 * at(5e-4) - at(1e-3)) / 3


def _confirm(
    f: Callable[[Arrays], float], inputs: Arrays, gradients: Mapping[str, np.ndarray]
) -> None:
    """Each gradient along three random directions of its input."""
    rng = _rng(99)
    for name, gradient in gradients.items():
        for _ in range(3):
            direction = rng.standard_normal(gradient.shape)
            slope = _slope(lambda x, n=name: f({**inputs, n: x}), inputs[name], direction)
            size = np.linalg.norm(gradient) * np.linalg.norm(direction)
            assert abs(slope - np.sum(gradient * direction)) <= 1e-9 * max(size, 1.0), name


def test_oracles_import_nothing_of_the_product() -> None:
    files = sorted((ROOT / "oracles").rglob("*.py"))
    assert len(files) > 30
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {n.split(".")[0] for n in names} <= ALLOWED, path


def test_every_declared_row_has_an_oracle() -> None:
    for op, direction in {(row.op, row.direction) for row in declared_rows()}:
        assert (ROOT / "oracles" / "ops" / f"{op}.py").exists()
        names = {
            n.name
            for n in ast.parse((ROOT / "oracles" / "ops" / f"{op}.py").read_text()).body
            if isinstance(n, ast.FunctionDef)
        }
        assert direction in names


def test_matmul_gradients() -> None:
    rng = _rng()
    inputs = {
        "x": rng.standard_normal((3, 5)),
        "w": rng.standard_normal((4, 5)),
        "c": rng.standard_normal((3, 4)),
    }
    dy = rng.standard_normal((3, 4))
    dx = matmul.backward(dy=dy, w=inputs["w"], alpha=0.7)["dx"]
    dw = matmul.backward_weight(dy=dy, x=inputs["x"], alpha=0.7)["dw"]
    _confirm(
        lambda v: float(np.sum(dy * matmul.forward(**v, alpha=0.7)["y"])),
        inputs,
        {"x": dx, "w": dw, "c": dy},
    )
    assert np.array_equal(
        matmul.backward(dy=dy, w=inputs["w"], c=inputs["x"], alpha=0.7)["dx"], dx + inputs["x"]
    )


def test_bias_and_embedding_gradients() -> None:
    rng = _rng()
    inputs = {"x": rng.standard_normal((5, 3)), "b": rng.standard_normal(3)}
    dy = rng.standard_normal((5, 3))
    db = bias.backward_weight(dy=dy)["db"]
    _confirm(lambda v: float(np.sum(dy * bias.forward(**v)["y"])), inputs, {"x": dy, "b": db})
    ids = np.array(
        [2, 0, 2, -1, 4], dtype=np.int32
    )  # a repeat, and one id on either side of the table
    w = rng.standard_normal((4, 3))
    dw = embedding.backward_weight(dy=dy, ids=ids, c=np.zeros((4, 3)))["dw"]
    _confirm(
        lambda v: float(np.sum(dy * embedding.forward(ids=ids, w=v["w"])["y"])), {"w": w}, {"w": dw}
    )
    assert not embedding.forward(ids=ids, w=w)["y"][3:].any()


def test_rms_norm_gradients() -> None:
    rng = _rng()
    inputs = {"x": rng.standard_normal((3, 7)), "w": rng.standard_normal(7)}
    dy = rng.standard_normal((3, 7))
    r = rms_norm.forward(**inputs, eps=1e-3)["r"]
    dx = rms_norm.backward(dy=dy, x=inputs["x"], w=inputs["w"], r=r)["dx"]
    dw = rms_norm.backward_weight(dy=dy, x=inputs["x"], r=r)["dw"]
    _confirm(
        lambda v: float(np.sum(dy * rms_norm.forward(**v, eps=1e-3)["y"])),
        inputs,
        {"x": dx, "w": dw},
    )


@pytest.mark.parametrize("neox", [0, 1])
def test_rope_gradient_is_the_transpose(neox: int) -> None:
    rng = _rng()
    cos, sin = rng.standard_normal((9, 2)), rng.standard_normal((9, 2))
    fixed: dict[str, Any] = {
        "positions": np.array([3, 0, 8], dtype=np.int32),
        "cos": cos,
        "sin": sin,
    }
    settings: dict[str, Any] = {"head_size": 6, "n_rot": 4, "neox": neox}
    x, dy = rng.standard_normal((3, 12)), rng.standard_normal((3, 12))
    dx = rope.backward(dy=dy, **fixed, **settings)["dx"]
    _confirm(
        lambda v: float(np.sum(dy * rope.forward(**v, **fixed, **settings)["y"])),
        {"x": x},
        {"x": dx},
    )


def test_rope_rotates_by_hand() -> None:
    fields: dict[str, Any] = {
        "positions": np.array([1], dtype=np.int32),
        "cos": np.array([[9.0], [0.0]]),
        "sin": np.array([[9.0], [1.0]]),
    }
    x = np.array([[1.0, 2.0, 5.0]])
    for neox in (0, 1):  # a quarter turn: (a, b) -> (-b, a); the third element does not rotate
        y = rope.forward(x=x, **fields, head_size=3, n_rot=2, neox=neox)["y"]
        assert y.tolist() == [[-2.0, 1.0, 5.0]]


def test_swiglu_gradients() -> None:
    rng = _rng()
    inputs = {"g": rng.standard_normal(20) * 4, "u": rng.standard_normal(20)}
    dy = rng.standard_normal(20)
    grads = swiglu.backward(dy=dy, **inputs)
    _confirm(
        lambda v: float(np.sum(dy * swiglu.forward(**v)["y"])),
        inputs,
        {"g": grads["dg"], "u": grads["du"]},
    )


def test_dropout_gradient_uses_the_forward_mask() -> None:
    rng = _rng()
    fixed: dict[str, Any] = {
        "token_index": np.array([5, -1, 70000], np.int32),
        "step": np.array([3], np.uint32),
    }
    settings: dict[str, Any] = {"seed": 2**63 + 5, "tensor": 77, "threshold": 2**31, "scale": 2.0}
    x, dy = rng.standard_normal((3, 50)), rng.standard_normal((3, 50))
    dx = dropout.backward(dy=dy, **fixed, **settings)["dx"]
    _confirm(
        lambda v: float(np.sum(dy * dropout.forward(**v, **fixed, **settings)["y"])),
        {"x": x},
        {"x": dx},
    )
    assert not dx[1].any()
    assert 20 < np.count_nonzero(dx[[0, 2]]) < 80


ATTENTION: dict[str, Any] = {"heads": 6, "kv_heads": 2, "head_size": 3, "scale": 0.6}


def _attention_inputs() -> tuple[dict[str, Any], dict[str, Any]]:
    rng = _rng()
    arrays = {
        "q": rng.standard_normal((4, 18)),
        "k": rng.standard_normal((7, 6)),
        "v": rng.standard_normal((7, 6)),
    }
    ranges = {
        "key_begin": np.array([0, 2, 3, 1], np.int32),
        "key_end": np.array([1, 6, 3, 7], np.int32),
    }
    return arrays, ranges


def test_attention_gradients() -> None:
    arrays, ranges = _attention_inputs()
    d_o = _rng(1).standard_normal((4, 18))
    grads = attention.backward(d_o=d_o, **arrays, **ranges, **ATTENTION)
    assert not grads["dq"][2].any()  # this query sees no key
    _confirm(
        lambda v: float(np.sum(d_o * attention.forward(**v, **ranges, **ATTENTION)["o"])),
        arrays,
        {n: grads[f"d{n}"] for n in ("q", "k", "v")},
    )


def test_attention_without_keys() -> None:
    arrays, ranges = _attention_inputs()
    out = attention.forward(**arrays, **ranges, **ATTENTION)
    assert np.array_equal(out["o"][2], np.zeros(18))
    assert np.array_equal(out["L"][2], np.full(6, -np.inf))
    rest = [0, 1, 3]
    fewer = attention.forward(
        q=arrays["q"][rest],
        k=arrays["k"],
        v=arrays["v"],
        **{n: r[rest] for n, r in ranges.items()},
        **ATTENTION,
    )
    assert np.array_equal(fewer["o"], out["o"][rest])


def test_attention_group_order() -> None:
    """K6: one token, six query heads over two: dv = [6, 15], dq = dk = 0."""
    one = np.ones((1, 1), np.int32)
    grads = attention.backward(
        d_o=np.arange(1.0, 7.0).reshape(1, 6),
        q=np.ones((1, 6)),
        k=np.ones((1, 2)),
        v=np.ones((1, 2)),
        key_begin=0 * one[0],
        key_end=one[0],
        heads=6,
        kv_heads=2,
        head_size=1,
        scale=1.0,
    )
    assert grads["dv"].tolist() == [[6.0, 15.0]]
    assert not grads["dq"].any()
    assert not grads["dk"].any()


def test_attention_against_mpmath() -> None:
    arrays, ranges = _attention_inputs()
    out = attention.forward(**arrays, **ranges, **ATTENTION)
    with mp.workdps(40):
        for t, h in ((0, 0), (1, 2), (3, 5)):
            group, keys = h // 3, range(ranges["key_begin"][t], ranges["key_end"][t])
            q = [mp.mpf(x) for x in arrays["q"][t, 3 * h : 3 * h + 3]]
            logits = [
                0.6 * mp.fdot(q, [mp.mpf(x) for x in arrays["k"][j, 3 * group : 3 * group + 3]])
                for j in keys
            ]
            total = mp.fsum(mp.exp(s) for s in logits)
            assert abs(out["L"][t, h] - mp.log(total)) < 1e-14
            first = mp.fsum(
                mp.exp(s) * mp.mpf(arrays["v"][j, 3 * group])
                for s, j in zip(logits, keys, strict=True)
            )
            assert abs(out["o"][t, 3 * h] - first / total) < 1e-14


def test_head_gradients() -> None:
    rng = _rng()
    h, w = rng.standard_normal((4, 5)), rng.standard_normal((9, 5))
    targets = np.array([3, -1, 8, 0], np.int32)
    dnll = np.array([0.5, 7.0, -1.0, 2.0])
    unit = linear_cross_entropy.forward(h=h, w=w, targets=targets)
    assert unit["nll"][1] == 0
    assert not unit["dh_unit"][1].any()
    dh = linear_cross_entropy.backward(dnll=dnll, dh_unit=unit["dh_unit"])["dh"]
    _confirm(
        lambda v: float(
            np.sum(dnll * linear_cross_entropy.forward(h=v["h"], w=w, targets=targets)["nll"])
        ),
        {"h": h},
        {"h": dh},
    )


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_head_against_mpmath(scale: float) -> None:
    """Also where the model is so certain that nll is 1e-30: its digits are kept."""
    rng = _rng(2)
    h, w = rng.standard_normal((3, 4)) * scale, rng.standard_normal((6, 4))
    targets = np.array([int(np.argmax(h[0] @ w.T)), int(np.argmax(h[1] @ w.T)), 2], np.int32)
    nll = linear_cross_entropy.forward(h=h, w=w, targets=targets)["nll"]
    with mp.workdps(400):
        for t in range(3):
            z = [mp.fdot([mp.mpf(x) for x in h[t]], [mp.mpf(x) for x in row]) for row in w]
            exact = mp.log(mp.fsum(mp.exp(s - z[targets[t]]) for s in z))
            assert abs(nll[t] - exact) <= abs(exact) * 1e-14 * (1 + scale * 20)


@pytest.mark.parametrize(
    "x", [-1e3, -88.5, -20.0, -1.2784645427610738, -1e-5, 0.0, 1e-30, 3.3, 40.0, 500.0]
)
def test_swiglu_against_mpmath(x: float) -> None:
    value = swiglu.forward(g=np.array([x]), u=np.ones(1))["y"][0]
    slope = swiglu.backward(dy=np.ones(1), g=np.array([x]), u=np.ones(1))["dg"][0]
    with mp.workdps(500):
        s = 1 / (1 + mp.exp(-mp.mpf(x)))
        assert abs(value - x * s) <= abs(x * s) * 1e-15 + mp.mpf(2) ** -1074
        exact = s * (1 + x * (1 - s))
        # The two terms cancel near -1.278; the size of either is what float64 can hold.
        assert abs(slope - exact) <= 4e-16 * s * (1 + abs(x) * (1 - s)) + mp.mpf(2) ** -1074


def test_exp_and_log_against_mpmath() -> None:
    x = (
        np.concatenate([_rng().uniform(-100, 88, 200), [1e-30, -1e-8]])
        .astype(np.float32)
        .astype(np.float64)
    )
    y = np.abs(x) + 1e-3
    with mp.workdps(40):
        for got, value in zip(exp.forward(x=x)["y"], x, strict=True):
            assert abs(got / mp.exp(mp.mpf(value)) - 1) < 1e-15
        for got, value in zip(log.forward(x=y)["y"], y, strict=True):
            assert abs(got - mp.log(mp.mpf(value))) <= 2.3e-16 * max(abs(got), 1e-3)


def test_rms_norm_against_mpmath() -> None:
    x, w = _rng().standard_normal((2, 6)) * 1e-3, _rng(1).standard_normal(6)
    got = rms_norm.forward(x=x, w=w, eps=1e-5)
    with mp.workdps(40):
        for t in range(2):
            r = 1 / mp.sqrt(mp.fsum(mp.mpf(a) ** 2 for a in x[t]) / 6 + mp.mpf(1e-5))
            assert abs(got["r"][t] / r - 1) < 1e-15
            assert abs(got["y"][t, 3] / (x[t, 3] * w[3] * r) - 1) < 1e-15


def test_adamw_first_step_by_hand() -> None:
    """At t = 1 the corrected moments are g and g^2.

    The step is lr g / (|g| + eps), next to the decay.
    """
    lr, b1, b2, eps, decay = 0.1, 0.9, 0.999, 1e-3, 0.5
    settings = np.array([lr, b1, b2, 1 - b1, 1 - b2, 1 - b1, 1 - b2, eps, 1 - lr * decay])
    g, x = np.array([2.0, -0.5]), np.array([1.0, 1.0])
    out = adamw.step(
        g=g, settings=settings, clip=np.array([0.5]), x=x, m=np.zeros(2), v=np.zeros(2)
    )
    expected = 0.95 - lr * np.array([1.0, -0.25]) / (np.array([1.0, 0.25]) + eps)
    assert np.abs(out["x"] - expected).max() < 1e-15


def test_sum_squares_and_clip_are_correctly_rounded() -> None:
    g = np.array([3e20, 1.0, -1e-20] * 1500, np.float32).astype(np.float64)
    sums = sum_squares.forward(g=g)["sums"]
    assert len(sums) == 2
    with mp.workdps(80):
        exact = [mp.fsum(mp.mpf(x) ** 2 for x in part) for part in (g[:4096], g[4096:])]
        assert [float(cast(mp.mpf, x)) for x in exact] == sums.tolist()
    out = clip.forward(sums=np.array([9.0, 16.0]), max_norm=1.0)
    assert (out["norm"][0], out["scale"][0]) == (5.0, 0.2)
    assert clip.forward(sums=np.array([9.0]), max_norm=0.0)["scale"][0] == 1.0
    assert clip.forward(sums=np.zeros(0), max_norm=1.0)["norm"][0] == 0.0
    assert math.isnan(clip.forward(sums=np.array([np.nan]), max_norm=1.0)["scale"][0])
