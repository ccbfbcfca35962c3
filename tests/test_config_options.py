"""Options: their domains hold in Python as they do in a run document."""

import pickle
from collections.abc import Callable

import pytest

from retrograd.config import (
    LoraOptions,
    OptimizerOptions,
    OptionsError,
    OutputOptions,
    TrainingOptions,
)
from retrograd.errors import ConfigError

BROKEN: list[tuple[Callable[[], object], str]] = [
    (lambda: LoraOptions(rank=0), "rank = 0"),
    (lambda: LoraOptions(alpha=-1.0), "alpha = -1.0"),
    (lambda: LoraOptions(alpha=float("nan")), "alpha = nan"),
    (lambda: LoraOptions(dropout=1.0), "dropout = 1.0"),
    (lambda: LoraOptions(targets=()), "targets = []"),
    (lambda: LoraOptions(targets=("ffn_dwn",)), "write 'ffn_down'"),
    (lambda: OptimizerOptions(learning_rate=0.0), "learning_rate = 0.0"),
    (lambda: OptimizerOptions(learning_rate=float("inf")), "learning_rate = inf"),
    (lambda: OptimizerOptions(weight_decay=-0.1), "weight_decay = -0.1"),
    (lambda: OptimizerOptions(max_grad_norm=-1.0), "max_grad_norm = -1.0"),
    (lambda: OptimizerOptions(beta1=1.0), "beta1 = 1.0"),
    (lambda: OptimizerOptions(beta2=-0.1), "beta2 = -0.1"),
    (lambda: OptimizerOptions(eps=0.0), "eps = 0.0"),
    (lambda: OptimizerOptions(name="sgd", momentum=1.0), "momentum = 1.0"),
    (lambda: OptimizerOptions(name="sgd", nesterov=True), "nesterov = true with momentum = 0.0"),
    (lambda: OptimizerOptions(momentum=0.9), 'momentum = 0.9 with name = "adamw"'),
    (lambda: OptimizerOptions(warmup_steps=-1), "warmup_steps = -1"),
    (lambda: OptimizerOptions(final_rate_share=1.5), "final_rate_share = 1.5"),
    (lambda: TrainingOptions(epochs=0), "epochs = 0, steps = 0"),
    (lambda: TrainingOptions(steps=-1), "steps = -1"),
    (lambda: TrainingOptions(micro_batch=0), "micro_batch = 0"),
    (lambda: TrainingOptions(accumulation=0), "accumulation = 0"),
    (lambda: TrainingOptions(context=1), "context = 1"),
    (lambda: TrainingOptions(seed=2**64), f"seed = {2**64}"),
    (lambda: TrainingOptions(seed=-1), "seed = -1"),
    (lambda: TrainingOptions(eval_every=-1), "eval_every = -1"),
    (lambda: TrainingOptions(log_every=0), "log_every = 0"),
    (lambda: TrainingOptions(threads=1025), "threads = 1025"),
    (
        lambda: TrainingOptions(steps=3, optimizer=OptimizerOptions(warmup_steps=4)),
        "warmup_steps = 4 with steps = 3",
    ),
    (lambda: OutputOptions(name="a/b"), "name = 'a/b'"),
    (lambda: OutputOptions(name=".."), "name = '..'"),
]


@pytest.mark.parametrize(("make", "got"), BROKEN, ids=[got for _, got in BROKEN])
def test_a_value_outside_its_domain_is_refused_with_its_name(
    make: Callable[[], object], got: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert got in str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert refused.value.exit_code == 2


def test_values_at_the_edge_of_their_domain_are_taken() -> None:
    assert LoraOptions(rank=1, dropout=0.0).rank == 1
    assert LoraOptions(targets=("q", "blk.2?.attn_v.weight")).targets[0] == "q"
    assert OptimizerOptions(name="sgd", momentum=0.9, nesterov=True).nesterov
    warm = TrainingOptions(steps=4, seed=2**64 - 1, optimizer=OptimizerOptions(warmup_steps=4))
    assert warm.seed == 2**64 - 1
    assert TrainingOptions(epochs=0, steps=1).steps == 1
    assert TrainingOptions(micro_batch=3, accumulation=5).rows_per_step == 15


def test_all_broken_rules_of_a_table_are_told_together() -> None:
    with pytest.raises(OptionsError) as refused:
        LoraOptions(rank=0, dropout=2.0)
    assert [error.got for error in refused.value.errors] == ["rank = 0", "dropout = 2.0"]
    assert str(refused.value).count("\n") == 1
    copy = pickle.loads(pickle.dumps(refused.value))
    assert str(copy) == str(refused.value)


def test_scale_of_lora_and_rslora() -> None:
    assert LoraOptions(rank=8, alpha=16.0).scale == 2.0
    assert LoraOptions(rank=16, alpha=8.0, rslora=True).scale == 2.0
    assert LoraOptions(rank=16, alpha=8.0, rslora=True).exported_alpha == 32.0
