"""Launches of pinned rows with what they must give, stated again in numpy one rounding at a time.

Sizes lie on and beside the edges that kernels split at. Values hold subnormals, infinities and NaN.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import gguf
import numpy as np
from numpy.typing import NDArray

from lanes.guards import Guarded, holding, poisoned
from oracles.pinned import elementary
from retrograd.backends import Device
from retrograd.formats import FORMATS
from retrograd.philox import Purpose, name_word, stream_words
from retrograd.runtime.launch import launch

Array = NDArray[np.generic]
Single = NDArray[np.float32]

CHUNK = 16384
TENSOR = "blk.0.attn_q.weight.lora_a"


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes:
        inputs: arrays that the launch must leave alone, and those of ``expected`` that it updates.
        numbers: dimensions and settings.
        expected: what each written field must hold.
        scratch: fields whose contents are free: shape and dtype.
        shared: output field -> input field whose buffer it takes over.
    """

    inputs: Mapping[str, Array]
    numbers: Mapping[str, int | float]
    expected: Mapping[str, Array]
    scratch: Mapping[str, tuple[tuple[int, ...], type]] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)


Builder = Callable[[], Iterator[Case]]


def run(device: Device, row: str, case: Case) -> dict[str, Array]:
    """Launches a case between canaries; returns the written fields."""
    written = set(case.expected)
    taken = {source: name for name, source in case.shared.items()}
    buffers: dict[str, Guarded] = {
        name: holding(name, values, written=name in written or name in taken)
        for name, values in case.inputs.items()
    }
    for name, values in case.expected.items():
        if name in case.shared:
            buffers[name] = buffers[case.shared[name]]
        elif name not in buffers:
            buffers[name] = poisoned(name, values.shape, values.dtype)
    for name, (shape, dtype) in case.scratch.items():
        buffers[name] = poisoned(name, shape, np.dtype(dtype))
    launch(device, row, **{name: b.array for name, b in buffers.items()}, **case.numbers)
    assert [fault for b in buffers.values() for fault in b.faults()] == []
    return {name: buffers[name].array.copy() for name in case.expected}


def differing(got: Mapping[str, Array], case: Case) -> list[str]:
    """Fields that are not equal bit by bit; the payload of a NaN is free."""
    wrong: list[str] = []
    for name, want in case.expected.items():
        have = got[name]
        word = np.dtype(f"u{want.dtype.itemsize}")
        unequal = have.view(word) != want.view(word)
        unequal &= ~(np.isnan(have) & np.isnan(want))
        if have.dtype != want.dtype or unequal.any():
            wrong.append(f"{name}: {int(unequal.sum())} of {want.size} elements")
    return wrong


def noise(n: int, seed: int) -> Single:
    """Gaussian noise."""
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def values(n: int, seed: int) -> Single:
    """Noise, with numbers of every size, zeros, subnormals, infinities and a NaN among it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).astype(np.float32)
    odd = rng.random(n) < 0.1
    x[odd] = rng.integers(0, 1 << 32, int(odd.sum()), dtype=np.uint64).astype(np.uint32).view("f4")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38], dtype=np.float32)
    if n > 40:
        x[rng.choice(n, special.size, replace=False)] = special
    return x


def _sizes() -> tuple[int, ...]:
    return (0, 1, 7, 33, CHUNK - 1, CHUNK, 2 * CHUNK + 5)


def exp() -> Iterator[Case]:
    for n in _sizes():
        x = values(n, n) * np.float32(30)
        yield Case({"x": x}, {"n": n}, {"y": elementary.exp(x)})


def log() -> Iterator[Case]:
    for n in _sizes():
        x = np.abs(values(n, n)) if n > 1 else values(n, n)
        expected = {"y": elementary.log(x)}
        yield Case({"x": x}, {"n": n}, expected)
        yield Case({"x": x}, {"n": n}, expected, shared={"y": "x"})


def add() -> Iterator[Case]:
    for n in _sizes():
        a, b = values(n, 1), values(n, 2)
        yield Case({"a": a, "b": b}, {"n": n}, {"y": a + b})
        yield Case({"a": a, "b": b}, {"n": n}, {"y": a + b}, shared={"y": "b"})


def fill() -> Iterator[Case]:
    for n in _sizes():
        yield Case({}, {"n": n, "value": 0.1}, {"y": np.full(n, 0.1, np.float32)})


def bias() -> Iterator[Case]:
    for t, c in ((0, 5), (1, 1), (3, 17), (130, 576), (5, CHUNK + 3)):
        x, b = values(t * c, 3).reshape(t, c), values(c, 4)
        yield Case({"x": x, "b": b}, {"T": t, "C": c}, {"y": x + b})
        yield Case({"x": x, "b": b}, {"T": t, "C": c}, {"y": x + b}, shared={"y": "x"})


def bias_backward_weight() -> Iterator[Case]:
    for t, c in ((0, 5), (1, 1), (64, 33), (65, 1025), (200, 17)):
        dy, acc = values(t * c, 5).reshape(t, c), values(c, 6)
        scratch = {"scratch": ((-(-t // 64), c), np.float32)}
        numbers = {"T": t, "C": c}
        for start in (None, acc):
            db = np.zeros(c, np.float32) if start is None else start.copy()
            for block in range(0, t, 64):
                part = np.zeros(c, np.float32)
                for row in dy[block : block + 64]:
                    part = part + row
                db = db + part
            inputs = {"dy": dy} if start is None else {"dy": dy, "c": start}
            yield Case(inputs, numbers, {"db": db}, scratch)
            if start is not None:
                yield Case(inputs, numbers, {"db": db}, scratch, shared={"db": "c"})


def swiglu() -> Iterator[Case]:
    for n in _sizes():
        g, u = values(n, 7) * np.float32(8), values(n, 8)
        y = elementary.silu(g)[0] * u
        yield Case({"g": g, "u": u}, {"n": n}, {"y": y})
        yield Case({"g": g, "u": u}, {"n": n}, {"y": y}, shared={"y": "g"})


def swiglu_backward() -> Iterator[Case]:
    for n in _sizes():
        dy, g, u = values(n, 9), values(n, 10) * np.float32(8), values(n, 11)
        value, slope = elementary.silu(g)
        inputs = {"dy": dy, "g": g, "u": u}
        expected = {"dg": dy * u * slope, "du": dy * value}
        yield Case(inputs, {"n": n}, expected)
        yield Case(inputs, {"n": n}, expected, shared={"du": "dy"})
        yield Case(inputs, {"n": n}, expected, shared={"du": "dy", "dg": "g"})


def _rotated(x: Single, cos: Single, sin: Single, shape: tuple[int, int, int]) -> Single:
    head_size, n_rot, neox = shape
    heads = x.reshape(len(x), x.shape[1] // head_size, head_size)
    y = heads.copy()
    half = n_rot // 2
    first = slice(0, half) if neox else slice(0, n_rot, 2)
    second = slice(half, n_rot) if neox else slice(1, n_rot, 2)
    a, b = heads[..., first], heads[..., second]
    c, s = cos[:, None], sin[:, None]
    y[..., first] = a * c - b * s
    y[..., second] = b * c + a * s
    return y.reshape(x.shape)


def rope(name: str, out: str, sign: int) -> Iterator[Case]:
    shapes = ((2, 2), (8, 6), (64, 64), (10, 0), (96, 24))
    for t, n_heads in ((0, 1), (1, 3), (37, 9), (300, 2)):
        for head_size, n_rot in shapes:
            for neox in (0, 1):
                size = n_heads * head_size
                x = values(t * size, 12).reshape(t, size)
                positions = np.random.default_rng(13).integers(0, 50, t).astype(np.int32)
                angle = np.random.default_rng(14).uniform(0, 7, (50, n_rot // 2))
                cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
                turned = np.float32(sign) * sin[positions]
                y = _rotated(x, cos[positions], turned, (head_size, n_rot, neox))
                numbers = {"T": t, "C": size, "P": 50, "head_size": head_size, "n_rot": n_rot}
                inputs = {name: x, "positions": positions, "cos": cos, "sin": sin}
                shared = {out: name} if n_heads == 9 else {}
                yield Case(inputs, {**numbers, "neox": neox}, {out: y}, shared=shared)


def dropout(name: str, out: str) -> Iterator[Case]:
    seed, step = 0x0123_4567_89AB_CDEF, 7
    for t, c in ((0, 4), (1, 1), (5, 3), (40, 257), (2, 1030), (9, 4096)):
        x = values(t * c, 15).reshape(t, c)
        index = np.random.default_rng(16).permutation(3 * t + 1)[:t].astype(np.int32)
        if t > 4:
            index[1], index[2] = -1, 2**31 - 1
        words = np.zeros((t, c), np.uint32)
        for row, token in enumerate(index):
            first, skip = divmod(int(token) * c, 4)
            if token >= 0:
                n = skip + c
                stream = stream_words(seed, Purpose.DROPOUT, step, TENSOR, n, first_block=first)
                words[row] = stream[skip:]
        # One of the words itself is the threshold: it is kept, the next lower one is dropped.
        drawn = np.sort(words[index >= 0], axis=None)
        threshold = int(drawn[drawn.size // 3]) if t else 9
        scale = np.float32(1.5)
        kept = (words >= threshold) & (index >= 0)[:, None]
        y = np.where(kept, x * scale, np.float32(0))
        inputs = {name: x, "token_index": index, "step": np.array([step], np.uint32)}
        numbers = {"T": t, "C": c, "seed": seed, "tensor": name_word(TENSOR)}
        numbers |= {"threshold": threshold, "scale": 1.5}
        yield Case(inputs, numbers, {out: y})
        yield Case(inputs, numbers, {out: y}, shared={out: name})


def adamw() -> Iterator[Case]:
    for n in _sizes():
        for beyond in (False, True):
            sampler = values if beyond else noise
            g, x, m, v = (sampler(n, 17 + i) for i in range(4))
            v = np.abs(v)
            t, lr = 3, 1e-2
            b1, b2, wd = 0.9, 0.999, 0.1
            constants = (lr, b1, b2, 1 - b1, 1 - b2, 1 - b1**t, 1 - b2**t, 1e-8, 1 - lr * wd)
            settings = np.array(constants, np.float32)
            clip = np.array([0.37], np.float32)
            s_lr, s_b1, s_b2, c1, c2, k1, k2, eps, w = settings
            scaled = clip[0] * g
            m_new = s_b1 * m + c1 * scaled
            v_new = s_b2 * v + (c2 * scaled) * scaled
            x_new = x * w - s_lr * ((m_new / k1) / (np.sqrt(v_new / k2) + eps))
            inputs = {"g": g, "settings": settings, "clip": clip, "x": x, "m": m, "v": v}
            yield Case(inputs, {"n": n}, {"x": x_new, "m": m_new, "v": v_new})


def sgd() -> Iterator[Case]:
    for n in _sizes():
        g, x, buf = values(n, 21), values(n, 22), values(n, 23)
        settings = np.array([0.03, 0.9, 1 - 0.03 * 0.1], np.float32)
        clip = np.array([0.37], np.float32)
        lr, mu, w = settings
        scaled = clip[0] * g
        inputs = {"g": g, "settings": settings, "clip": clip, "x": x}
        plain = x * w - lr * scaled
        yield Case(inputs, {"n": n, "nesterov": 0}, {"x": plain})
        new = mu * buf + scaled
        for nesterov, u in ((0, new), (1, scaled + mu * new)):
            expected = {"x": x * w - lr * u, "buf": new}
            yield Case({**inputs, "buf": buf}, {"n": n, "nesterov": nesterov}, expected)


def sum_squares() -> Iterator[Case]:
    for n in (*_sizes(), 4096, 4097, 31):
        g = noise(n, n)
        sums: list[float] = []
        for start in range(0, n, 4096):
            chunk = g[start : start + 4096].astype(np.float64)
            partial = np.zeros(32)
            for i in range(0, chunk.size, 32):
                row = chunk[i : i + 32]
                partial[: row.size] += row * row
            while partial.size > 1:
                partial = partial[: partial.size // 2] + partial[partial.size // 2 :]
            sums.append(float(partial[0]))
        yield Case({"g": g}, {"n": n}, {"sums": np.array(sums, np.float64)})


def clip() -> Iterator[Case]:
    for n in (0, 1, 2, 3, 5, 64, 1001):
        sums = np.random.default_rng(n).chisquare(3, n)
        for changed in (sums, sums * 1e-40, np.where(np.arange(n) == n // 2, np.nan, sums)):
            level = changed
            while level.size > 1:
                even = level[: level.size // 2 * 2]
                level = np.concatenate([even[::2] + even[1::2], level[even.size :]])
            norm = np.sqrt(level[0]) if n else np.float64(0)
            for max_norm in (0.0, 0.5, 1e6):
                ratio = np.float64(1) if max_norm <= 0 else max_norm / np.maximum(norm, 1e-12)
                scale = np.minimum(1.0, ratio)
                expected = {"norm": np.array([norm]), "scale": np.array([scale], np.float32)}
                numbers = {"n": n, "max_norm": max_norm}
                yield Case({"sums": changed}, numbers, expected, {"scratch": ((n,), np.float64)})


def encoded(format_name: str, rows: int, columns: int) -> tuple[NDArray[np.uint8], Single]:
    """Random bytes of a storage format, and what the gguf package decodes from them."""
    kind = FORMATS[format_name]
    n_bytes = columns // kind.block_elements * kind.block_bytes
    data = np.random.default_rng(24).integers(0, 256, (rows, n_bytes), dtype=np.uint8)
    if format_name == "f32" or data.size == 0:
        return data, data.view(np.float32)
    with np.errstate(all="ignore"):
        decoded = gguf.dequantize(data, gguf.GGMLQuantizationType(kind.ggml_type))
    return data, decoded.astype(np.float32).reshape(rows, columns)


def embedding(format_name: str) -> Iterator[Case]:
    block = FORMATS[format_name].block_elements
    for t, v, c in ((0, 3, 256), (1, 1, block), (70, 11, 768), (9, 4, 256 * 70)):
        data, table = encoded(format_name, v, c)
        ids = np.random.default_rng(25).integers(-1, v + 1, t).astype(np.int32)
        ids[-1:] = v - 1
        known = (ids >= 0) & (ids < v)
        y = np.where(known[:, None], table[np.clip(ids, 0, v - 1)], np.float32(0))
        yield Case({"ids": ids, "w": data}, {"T": t, "V": v, "C": c}, {"y": y})


def embedding_backward_weight() -> Iterator[Case]:
    for t, v, c in ((0, 3, 5), (1, 1, 1), (50, 4, 65), (200, 300, 576)):
        dy, start = values(t * c, 26).reshape(t, c), values(v * c, 27).reshape(v, c)
        ids = np.random.default_rng(28).integers(-1, v + 1, t).astype(np.int32)
        for base in (None, start):
            dw = np.zeros((v, c), np.float32) if base is None else base.copy()
            for token, row in zip(ids, dy, strict=True):
                if 0 <= token < v:
                    dw[token] = dw[token] + row
            inputs = {"dy": dy, "ids": ids} | ({} if base is None else {"c": base})
            yield Case(inputs, {"T": t, "V": v, "C": c}, {"dw": dw})
            if base is not None:
                shared = {"dw": "c"}
                yield Case(inputs, {"T": t, "V": v, "C": c}, {"dw": dw}, shared=shared)


def scatter_rows() -> Iterator[Case]:
    for t, n, c in ((0, 3, 5), (1, 1, 1), (60, 90, 33), (5, 7, CHUNK)):
        x, y = values(t * c, 29).reshape(t, c), values(n * c, 30).reshape(n, c)
        rows = np.random.default_rng(31).permutation(np.arange(-1, n + 1))[:t].astype(np.int32)
        rows[:1] = n - 1
        rows[1:][rows[1:] == n - 1] = -5
        out = y.copy()
        known = (rows >= 0) & (rows < n)
        out[rows[known]] = x[known]
        yield Case({"x": x, "rows": rows, "y": y}, {"T": t, "N": n, "C": c}, {"y": out})


def dequantize(format_name: str) -> Iterator[Case]:
    block = FORMATS[format_name].block_elements
    for n in (0, block, 3 * 256, CHUNK, 2 * CHUNK + 256):
        data, decoded = encoded(format_name, 1, n)
        yield Case({"w": data}, {"n": n}, {"y": decoded.reshape(-1)})


def _rows_by_format(name: str, build: Callable[[str], Iterator[Case]]) -> dict[str, Builder]:
    return {f"{name}.{f if f == 'f32' else f + '-f32'}.cpu": lambda f=f: build(f) for f in FORMATS}


CASES: dict[str, Builder] = {
    "exp.forward.f32.cpu": exp,
    "log.forward.f32.cpu": log,
    "add.forward.f32.cpu": add,
    "fill.forward.f32.cpu": fill,
    "bias.forward.f32.cpu": bias,
    "bias.backward_weight.f32.cpu": bias_backward_weight,
    "swiglu.forward.f32.cpu": swiglu,
    "swiglu.backward.f32.cpu": swiglu_backward,
    "rope.forward.f32.cpu": lambda: rope("x", "y", 1),
    "rope.backward.f32.cpu": lambda: rope("dy", "dx", -1),
    "dropout.forward.f32.cpu": lambda: dropout("x", "y"),
    "dropout.backward.f32.cpu": lambda: dropout("dy", "dx"),
    "adamw.step.f32.cpu": adamw,
    "sgd.step.f32.cpu": sgd,
    "sum_squares.forward.f32.cpu": sum_squares,
    "clip.forward.f32.cpu": clip,
    "embedding.backward_weight.f32.cpu": embedding_backward_weight,
    "scatter_rows.forward.f32.cpu": scatter_rows,
    **_rows_by_format("embedding.forward", embedding),
    **_rows_by_format("dequantize.forward", dequantize),
}


def cases(row: str) -> list[Case]:
    """The cases of a row. Overflow and NaN, of which numpy warns, are what they are for."""
    with np.errstate(all="ignore"):
        return list(CASES[row]())
