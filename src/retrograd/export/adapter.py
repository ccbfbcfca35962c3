"""LoRA adapters in llama.cpp's GGUF form.

For a weight W (out, in) the file holds `<name>.lora_a` (r, in) and `<name>.lora_b` (out, r); a
reader adds (alpha / r) B (A x) to W x. `adapter.lora.alpha` is one f32 for all weights; the rank is
read from the shapes. rsLoRA is written as alpha sqrt(r), so that alpha / r stays the scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from retrograd.errors import GgufError
from retrograd.gguf import (
    GgufFile,
    MetadataValue,
    TensorData,
    TensorInfo,
    open_gguf,
    replace_file,
    write_gguf,
)

Array = npt.NDArray[np.float32]
_A, _B = ".lora_a", ".lora_b"
_AGAIN = "export the adapter again"


@dataclass(frozen=True)
class Factors:
    """The two factors of one weight.

    Args:
        lora_a: (r, in) f32.
        lora_b: (out, r) f32.
    """

    lora_a: Array
    lora_b: Array

    @property
    def rank(self) -> int:
        """The rank r."""
        return self.lora_a.shape[0]


@dataclass(frozen=True)
class Adapter:
    """An adapter that fits the base model it was read for.

    Args:
        architecture: of the base model.
        alpha: numerator of the scale alpha / r.
        factors: weight name to factors, in file order.
    """

    architecture: str
    alpha: float
    factors: Mapping[str, Factors]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that occurs, ascending; one for most adapters."""
        return tuple(sorted({factors.rank for factors in self.factors.values()}))

    def scale(self, name: str) -> float:
        """The scale alpha / r of one weight."""
        return self.alpha / self.factors[name].rank


def write_adapter(
    path: str | Path,
    *,
    architecture: str,
    alpha: float,
    factors: Mapping[str, tuple[Array, Array]],
    metadata: Mapping[str, MetadataValue] | None = None,
) -> Path:
    """Write an adapter, read it back and compare, then put it in place.

    Args:
        path: the new file; an old one is replaced only by a whole and checked adapter.
        architecture: `general.architecture` of the base model.
        alpha: numerator of the scale, stored as f32.
        factors: weight name to (lora_a (r, in), lora_b (out, r)), both f32.
        metadata: further keys, such as `general.name` of the base; none may repeat the keys above.

    Raises:
        GgufError: factors are missing, not finite or do not fit together, or the file cannot be
            written.
    """
    path = Path(path)
    own: dict[str, MetadataValue] = {
        "general.architecture": architecture,
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(alpha),
    }
    doubled = sorted(own.keys() & (metadata or {}).keys())
    if doubled:
        raise GgufError(
            "adapter", "further metadata repeats no adapter key", doubled, "leave it out"
        )
    tensors = _tensors(_checked(factors), alpha)
    try:
        with replace_file(path) as fresh:
            write_gguf(fresh, metadata={**own, **(metadata or {})}, tensors=tensors)
            _compare(open_gguf(fresh), tensors)
    except OSError as broken:
        got = f"{path}: {broken.strerror}"
        raise GgufError(
            "adapter", "the adapter can be written", got, "free space or choose another path"
        ) from broken
    return path


def read_adapter(path: str | Path, base: GgufFile) -> Adapter:
    """Read an adapter and check that it fits the base model.

    Factors stored in another format than f32 are decoded to f32.

    Raises:
        GgufError: not a LoRA adapter, made for another architecture, or a factor without its pair,
            its weight or the right shape.
    """
    file = open_gguf(path)
    for key, wanted in (("general.type", "adapter"), ("adapter.type", "lora")):
        found = file.get(key, "no such key")
        if found != wanted:
            raise GgufError(
                "adapter", f"{key!r} is {wanted!r}", repr(found), "give a LoRA adapter file"
            )
    ours = base.require("general.architecture", str)
    theirs = file.require("general.architecture", str)
    if theirs != ours:
        rule = f"the adapter is made for the architecture {ours!r} of {base.path.name}"
        raise GgufError("adapter", rule, repr(theirs), "use the base model it was trained on")
    if "adapter.alora.invocation_tokens" in file.metadata:
        got = "'adapter.alora.invocation_tokens'"
        raise GgufError(
            "adapter", "the adapter acts on every token", got, "use a plain LoRA adapter"
        )
    alpha = file.require("adapter.lora.alpha", float)
    pairs = {name: _pair(file, base, name) for name in _weight_names(file)}
    checked = {name: Factors(*pair) for name, pair in _checked(pairs).items()}
    _check_alpha(alpha)
    return Adapter(ours, alpha, MappingProxyType(checked))


def _weight_names(file: GgufFile) -> list[str]:
    """Names of the adapted weights, in file order; every tensor must be one half of a pair."""
    names: dict[str, None] = {}
    for tensor in file.tensors:
        name, dot, half = tensor.rpartition(".")
        other = {"lora_a": _B, "lora_b": _A}.get(half)
        if not dot or other is None:
            rule = f"every adapter tensor ends in {_A} or {_B}"
            raise GgufError("adapter", rule, repr(tensor), _AGAIN)
        if name + other not in file.tensors:
            rule = f"{tensor!r} comes with {name + other!r}"
            raise GgufError("adapter", rule, "no such tensor", _AGAIN)
        names[name] = None
    if not names:
        raise GgufError("adapter", "an adapter holds at least one pair of factors", "none", _AGAIN)
    return list(names)


def _pair(file: GgufFile, base: GgufFile, name: str) -> tuple[Array, Array]:
    weight = base.tensors.get(name)
    if weight is None or len(weight.shape) != 2:
        got = "no such tensor" if weight is None else f"shape {weight.shape}"
        rule = f"the base model {base.path.name} has a two-dimensional weight {name!r}"
        raise GgufError("adapter", rule, got, "use the base model it was trained on")
    if name.startswith("token_embd"):
        rule = "an adapted weight is read by a matrix product"
        raise GgufError("adapter", rule, repr(name), "train without the token embedding")
    a, b = file.tensors[name + _A], file.tensors[name + _B]
    _check_pair_shapes(a, b, weight)
    return file.dequantize(a.name), file.dequantize(b.name)


def _check_pair_shapes(a: TensorInfo, b: TensorInfo, weight: TensorInfo) -> None:
    """Before any factor is decoded: a hostile file may claim sizes that the base does not have."""
    n_out, n_in = weight.shape
    fits = len(a.shape) == len(b.shape) == 2
    if not fits or a.shape[1] != n_in or b.shape[0] != n_out or a.shape[0] != b.shape[1]:
        rule = f"factors of {weight.name!r} have shapes (r, {n_in}) and ({n_out}, r)"
        raise GgufError(
            "adapter", rule, f"{a.shape} and {b.shape}", "use the base model it was trained on"
        )


def _checked(factors: Mapping[str, tuple[Array, Array]]) -> Mapping[str, tuple[Array, Array]]:
    if not factors:
        raise GgufError(
            "adapter", "an adapter holds at least one pair of factors", "none", "train some"
        )
    for name, (a, b) in factors.items():
        if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1] or 0 in (*a.shape, *b.shape):
            rule = f"factors of {name!r} have shapes (r, in) and (out, r)"
            raise GgufError("adapter", rule, f"{a.shape} and {b.shape}", _AGAIN)
        for half, values in ((_A, a), (_B, b)):
            if values.dtype != np.float32:
                rule = f"{name + half!r} is float32"
                raise GgufError("adapter", rule, values.dtype, "convert it first")
            n_bad = int(values.size - np.count_nonzero(np.isfinite(values)))
            if n_bad:
                rule = f"every element of {name + half!r} is finite"
                raise GgufError("adapter", rule, f"{n_bad} that are not", "train with a lower rate")
    return factors


def _check_alpha(alpha: float) -> None:
    # As it is stored: a value beyond f32 would become infinite.
    with np.errstate(over="ignore"):
        stored = np.float32(alpha)
    if not np.isfinite(stored) or stored <= 0:
        raise GgufError(
            "adapter", "alpha is a positive finite f32", alpha, "choose alpha such as 16"
        )


def _tensors(factors: Mapping[str, tuple[Array, Array]], alpha: float) -> list[TensorData]:
    _check_alpha(alpha)
    pairs = ((name, (_A, a), (_B, b)) for name, (a, b) in factors.items())
    return [TensorData.f32(name + half, x) for name, *halves in pairs for half, x in halves]


def _compare(file: GgufFile, tensors: list[TensorData]) -> None:
    for t in tensors:
        info = file.tensor(t.name)
        if info.shape != t.shape or not np.array_equal(file.data(t.name), t.data):
            rule = f"{t.name!r} reads back as it was written"
            raise GgufError("adapter", rule, "other bytes", "check the disk and export again")
