"""LoRA adapters: written whole, read back equal, and refused when they do not fit the base."""

import errno
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest

import retrograd.export.adapter as adapter_module
from fixtures.draws import bell
from fixtures.tiny import recipe, write
from retrograd.errors import GgufError
from retrograd.export import Factors, read_adapter, write_adapter
from retrograd.export.adapter import Array
from retrograd.gguf import GgufFile, MetadataValue, TensorData, open_gguf, write_gguf

Q, DOWN = "blk.0.attn_q.weight", "blk.1.ffn_down.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    return open_gguf(write(recipe(), tmp_path_factory.mktemp("base")))


def pair(n_out: int, n_in: int, rank: int, name: str = "") -> tuple[Array, Array]:
    a = bell(f"{name} a", (rank, n_in), mean=0.0, deviation=0.1)
    return a, bell(f"{name} b", (n_out, rank), mean=0.0, deviation=0.1)


def factors() -> dict[str, tuple[Array, Array]]:
    return {Q: pair(64, 64, 4, Q), DOWN: pair(64, 128, 8, DOWN)}


def test_adapter_reads_back_bit_for_bit(base: GgufFile, tmp_path: Path) -> None:
    written = factors()
    path = write_adapter(
        tmp_path / "a.gguf",
        architecture="qwen2",
        alpha=16.0,
        factors=written,
        metadata={"general.name": "numbers"},
    )
    adapter = read_adapter(path, base)
    assert (adapter.architecture, adapter.alpha, adapter.ranks) == ("qwen2", 16.0, (4, 8))
    assert adapter.scale(Q) == 4.0
    assert adapter.scale(DOWN) == 2.0
    assert list(adapter.factors) == [Q, DOWN]
    for name, (a, b) in written.items():
        assert np.array_equal(adapter.factors[name].lora_a, a)
        assert np.array_equal(adapter.factors[name].lora_b, b)


def test_file_has_the_keys_and_dimensions_that_llama_cpp_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    write_adapter(path, architecture="qwen2", alpha=16.0, factors=factors())
    reader = gguf.GGUFReader(path)
    keys = gguf.Keys
    expected: dict[str, MetadataValue] = {
        keys.General.TYPE: gguf.GGUFType.ADAPTER,
        keys.Adapter.TYPE: "lora",
        keys.Adapter.LORA_ALPHA: 16.0,
        keys.General.ARCHITECTURE: "qwen2",
    }
    assert {k: reader.fields[k].contents() for k in expected} == expected
    assert reader.fields[keys.Adapter.LORA_ALPHA].types == [gguf.GGUFValueType.FLOAT32]
    dimensions = {t.name: [int(d) for d in t.shape] for t in reader.tensors}
    # ne of lora_a is (in, r), of lora_b (r, out).
    assert dimensions == {
        Q + ".lora_a": [64, 4],
        Q + ".lora_b": [4, 64],
        DOWN + ".lora_a": [128, 8],
        DOWN + ".lora_b": [8, 64],
    }


def test_half_precision_factors_are_widened(base: GgufFile, tmp_path: Path) -> None:
    a, b = pair(64, 64, 4)
    halves = [
        TensorData(f"{Q}.lora_{half}", x.shape, "f16", x.astype("<f2").reshape(-1).view(np.uint8))
        for half, x in (("a", a), ("b", b))
    ]
    path = tmp_path / "half.gguf"
    write_gguf(path, metadata=keys_of(), tensors=halves)
    read = read_adapter(path, base).factors[Q]
    assert np.array_equal(read.lora_a, a.astype(np.float16).astype(np.float32))
    assert read.lora_b.dtype == np.float32


def keys_of(**changes: MetadataValue | None) -> dict[str, MetadataValue]:
    keys: dict[str, MetadataValue | None] = {
        "general.architecture": "qwen2",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": 8.0,
    }
    for key, value in changes.items():
        keys[key.replace("__", ".")] = value
    return {key: value for key, value in keys.items() if value is not None}


def tensors_of(made: Mapping[str, tuple[Array, Array]]) -> list[TensorData]:
    return [
        TensorData.f32(f"{name}.lora_{half}", x)
        for name, both in made.items()
        for half, x in zip("ab", both, strict=True)
    ]


GOOD = tensors_of({Q: pair(64, 64, 4)})
MISFITS: dict[str, tuple[dict[str, MetadataValue], list[TensorData], str]] = {
    "a model": (keys_of(general__type="model"), GOOD, r"'general.type' is 'adapter'; got 'model'"),
    "no type": (keys_of(general__type=None), GOOD, r"'general.type' is 'adapter'; got 'no such"),
    "control vector": (keys_of(adapter__type="cv"), GOOD, r"'adapter.type' is 'lora'; got 'cv'"),
    "other architecture": (
        keys_of(general__architecture="llama"),
        GOOD,
        r"made for the architecture 'qwen2' of tiny-qwen2-f32.gguf; got 'llama'",
    ),
    "no alpha": (keys_of(adapter__lora__alpha=None), GOOD, r"holds the key 'adapter.lora.alpha'"),
    "alpha 0": (keys_of(adapter__lora__alpha=0.0), GOOD, r"alpha is a positive finite f32; got 0"),
    "alpha NaN": (
        keys_of(adapter__lora__alpha=float("nan")),
        GOOD,
        r"positive finite f32; got nan",
    ),
    "activated": (
        keys_of(adapter__alora__invocation_tokens=[1, 2]),
        GOOD,
        r"acts on every token; got 'adapter.alora.invocation_tokens'",
    ),
    "nothing": (keys_of(), [], r"at least one pair of factors; got none"),
    "half a pair": (keys_of(), GOOD[:1], r"'blk.0.attn_q.weight.lora_a' comes with 'blk.0"),
    "other half": (keys_of(), GOOD[1:], r"'blk.0.attn_q.weight.lora_b' comes with 'blk.0"),
    "stray tensor": (
        keys_of(),
        [*GOOD, TensorData.f32("blk.0.attn_q.bias", np.ones(64, np.float32))],
        r"ends in .lora_a or .lora_b; got 'blk.0.attn_q.bias'",
    ),
    "unknown weight": (
        keys_of(),
        tensors_of({"blk.9.attn_q.weight": pair(64, 64, 4)}),
        r"has a two-dimensional weight 'blk.9.attn_q.weight'; got no such tensor",
    ),
    "a vector": (
        keys_of(),
        tensors_of({"output_norm.weight": pair(64, 64, 4)}),
        r"two-dimensional weight 'output_norm.weight'; got shape \(64,\)",
    ),
    "token embedding": (
        keys_of(),
        tensors_of({"token_embd.weight": pair(260, 64, 4)}),
        r"read by a matrix product; got 'token_embd.weight'",
    ),
    "in": (
        keys_of(),
        tensors_of({Q: pair(64, 32, 4)}),
        r"shapes \(r, 64\) and \(64, r\); got \(4, 32",
    ),
    "out": (keys_of(), tensors_of({Q: pair(32, 64, 4)}), r"got \(4, 64\) and \(32, 4\)"),
    "ranks differ": (
        keys_of(),
        tensors_of({Q: (pair(64, 64, 4)[0], pair(64, 64, 5)[1])}),
        r"got \(4, 64\) and \(64, 5\)",
    ),
    "NaN": (
        keys_of(),
        tensors_of({Q: (np.full((4, 64), np.nan, np.float32), pair(64, 64, 4)[1])}),
        r"'blk.0.attn_q.weight.lora_a' is finite; got 256 that are not",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_adapter_that_does_not_fit_is_refused(name: str, base: GgufFile, tmp_path: Path) -> None:
    metadata, tensors, words = MISFITS[name]
    path = tmp_path / "misfit.gguf"
    write_gguf(path, metadata=metadata, tensors=tensors)
    with pytest.raises(GgufError, match=words):
        read_adapter(path, base)


@pytest.mark.parametrize(
    ("alpha", "made", "words"),
    [
        (16.0, {}, r"at least one pair of factors; got none"),
        (0.0, {Q: pair(64, 64, 4)}, r"alpha is a positive finite f32; got 0.0"),
        (1e39, {Q: pair(64, 64, 4)}, r"alpha is a positive finite f32; got 1e\+39"),
        (
            16.0,
            {Q: (pair(64, 64, 4)[0], pair(64, 64, 5)[1])},
            r"shapes \(r, in\) and \(out, r\); got",
        ),
        (16.0, {Q: (np.ones((4, 64)), np.ones((64, 4)))}, r"lora_a' is float32; got float64"),
        (
            16.0,
            {Q: (pair(64, 64, 4)[0], np.full((64, 4), np.inf, np.float32))},
            r"lora_b' is finite; got 256 that are not",
        ),
    ],
)
def test_unwritable_factors_leave_the_old_adapter(
    alpha: float, made: dict[str, tuple[Array, Array]], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"old")
    with pytest.raises(GgufError, match=words):
        write_adapter(path, architecture="qwen2", alpha=alpha, factors=made)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.gguf"
    path.write_bytes(b"old")
    monkeypatch.setattr(adapter_module, "write_gguf", full)
    with pytest.raises(GgufError, match=r"can be written; got .*a.gguf: No space left on device"):
        write_adapter(path, architecture="qwen2", alpha=16.0, factors=factors())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_that_change_on_the_way_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def corrupt(
        path: Path, *, metadata: dict[str, MetadataValue], tensors: list[TensorData]
    ) -> None:
        write_gguf(path, metadata=metadata, tensors=tensors)
        stored = bytearray(path.read_bytes())
        stored[-1] ^= 0x80
        path.write_bytes(stored)

    monkeypatch.setattr(adapter_module, "write_gguf", corrupt)
    path = tmp_path / "a.gguf"
    with pytest.raises(GgufError, match=r"ffn_down.weight.lora_b' reads back as it was written"):
        write_adapter(path, architecture="qwen2", alpha=16.0, factors=factors())
    assert not path.exists()


def test_own_keys_cannot_be_replaced(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"repeats no adapter key; got \['general.type'\]"):
        write_adapter(
            tmp_path / "a.gguf",
            architecture="qwen2",
            alpha=16.0,
            factors=factors(),
            metadata={"general.type": "model"},
        )


def test_rank_is_read_from_the_shapes() -> None:
    assert Factors(*pair(64, 64, 5)).rank == 5
