"""Files with a valid header and a model that cannot be what it says."""

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.tiny import recipe
from retrograd import LoraOptions, Trainer
from retrograd.errors import GgufError, TrainingError
from retrograd.export import write_adapter
from retrograd.families import read_config, recognise
from retrograd.gguf import open_gguf
from retrograd.text.examples import Example
from tests.hostile_models import hostile_model

IDS = [5, 6, 7, 8, 9]


def _scaling(path: Path) -> tuple[str, float]:
    file = open_gguf(path)
    scaling = read_config(file, recognise(file)).rope_scaling
    return scaling.kind, scaling.factor


def test_a_block_count_of_billions_costs_neither_time_nor_memory(tmp_path: Path) -> None:
    path = hostile_model(tmp_path, keys={"qwen2.block_count": 2**32 - 1})
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(GgufError, match=r"block_count is at most .*4294967295 blocks of 15"):
        Trainer(path, lora=LoraOptions(rank=2))
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_rotary_factors_are_positive_and_finite(tmp_path: Path, bad: float) -> None:
    factors = np.ones(8, np.float32)
    factors[3] = bad
    path = hostile_model(tmp_path, extra={"rope_freqs.weight": factors})
    with pytest.raises(GgufError, match=r"rope_freqs.weight are positive and finite"):
        Trainer(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("qwen2.rope.freq_base", float("inf")),
        ("qwen2.rope.scaling.factor", float("inf")),
        ("qwen2.rope.scaling.factor", float("nan")),
    ],
)
def test_rotary_numbers_are_finite(tmp_path: Path, key: str, value: float) -> None:
    path = hostile_model(tmp_path, keys={key: value, "qwen2.rope.scaling.type": "linear"})
    with pytest.raises(GgufError, match=key.removeprefix("qwen2.")):
        Trainer(path)


def test_a_scaling_factor_without_a_type_is_linear(tmp_path: Path) -> None:
    assert _scaling(hostile_model(tmp_path)) == ("none", 1.0)
    named: dict[str, Any] = {"qwen2.rope.scaling.factor": 4.0}
    assert _scaling(hostile_model(tmp_path, keys=named)) == ("linear", 4.0)
    named["qwen2.rope.scaling.type"] = "none"
    assert _scaling(hostile_model(tmp_path, keys=named))[0] == "none"


def test_a_tensor_without_a_place_is_refused_and_not_left_out(tmp_path: Path) -> None:
    bias = {"blk.0.attn_q.bias": np.ones(64)}
    path = hostile_model(tmp_path, base=recipe(arch="llama", layers=1), extra=bias)
    with pytest.raises(GgufError, match=r"every tensor has a place .*'blk\.0\.attn_q\.bias'"):
        Trainer(path)


def test_every_token_has_a_row_in_the_embedding_table(tmp_path: Path) -> None:
    table = np.ones((100, 64))
    replaced = {"token_embd.weight": table, "output.weight": table}
    path = hostile_model(tmp_path, replaced=replaced)
    with pytest.raises(GgufError, match=r"260 tokens, 100 rows"):
        Trainer(path)


def test_rows_beyond_the_vocabulary_are_never_generated(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    table = generator.standard_normal((400, 64))
    table[260:] *= 8
    replaced = {"token_embd.weight": table, "output.weight": table}
    trainer = Trainer(hostile_model(tmp_path, replaced=replaced))
    top = int(np.argmax(trainer.logits(IDS)[0, -1]))
    assert top >= 260  # the model itself would choose a row that stands for no token
    for answer in trainer.generate(["a", "b"], max_tokens=20, temperature=2.0, chat=False):
        assert max(answer.token_ids) < 260


def test_weights_that_are_not_finite_stop_the_first_step(tmp_path: Path) -> None:
    replaced = {"output_norm.weight": np.full(64, np.nan)}
    trainer = Trainer(hostile_model(tmp_path, replaced=replaced), lora=LoraOptions(rank=2))
    before = trainer.parameters()
    with pytest.raises(TrainingError, match=r"loss nan.*the model's weights"):
        trainer.train_step([Example(IDS, IDS)])
    after = trainer.parameters()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_an_adapter_of_the_head_is_refused_and_the_old_one_kept(tmp_path: Path) -> None:
    trainer = Trainer(hostile_model(tmp_path), lora=LoraOptions(rank=2, targets=("q",)))
    trainer.train_step([Example(IDS, IDS)])
    before = trainer.parameters()
    pair = (np.ones((2, 64), np.float32), np.ones((260, 2), np.float32))
    head = tmp_path / "head.gguf"
    write_adapter(head, architecture="qwen2", alpha=2.0, factors={"output.weight": pair})
    plain = Trainer(tmp_path / "hostile.gguf")
    with pytest.raises(GgufError, match=r"acts on the products .*'output.weight'"):
        plain.load_adapter(head)
    saved = trainer.save_adapter(tmp_path / "q.gguf")
    plain.load_adapter(saved)
    after = plain.parameters()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
