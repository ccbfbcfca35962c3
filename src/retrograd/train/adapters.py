"""Which products get a LoRA adapter, and its first values."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from retrograd.config.options import TARGET_ALIASES, LoraOptions
from retrograd.errors import ConfigError
from retrograd.export.adapter import Adapter as Loaded
from retrograd.families import ModelConfig
from retrograd.graph import Adapter
from retrograd.philox import Purpose, name_word, stream_words

LEAST_MOST_RANK = 64  # models narrower than this are test models; any rank up to it is taken


def target_weights(config: ModelConfig, targets: Sequence[str]) -> list[str]:
    """Names of the weights that the selectors choose, in layer order.

    Raises:
        ConfigError: a selector is no alias and matches no weight of this model.
    """
    names = [
        f"blk.{i}.{part}.weight" for i in range(config.n_layers) for part in TARGET_ALIASES.values()
    ]
    chosen: set[str] = set()
    for selector in targets:
        found = _select(names, selector)
        if not found:
            aliases = ", ".join(TARGET_ALIASES)
            remedy = f"use 'auto', an alias ({aliases}) or a pattern such as 'blk.*.attn_q.weight'"
            raise ConfigError(
                "lora", "each entry of targets selects at least one weight", repr(selector), remedy
            )
        chosen.update(found)
    return [name for name in names if name in chosen]


def _select(names: Sequence[str], selector: str) -> list[str]:
    if selector == "auto":
        return list(names)
    if selector in TARGET_ALIASES:
        return [name for name in names if name.split(".")[2] == TARGET_ALIASES[selector]]
    return [name for name in names if fnmatchcase(name, selector)]


def make_adapters(config: ModelConfig, options: LoraOptions, seed: int) -> dict[str, Adapter]:
    """Adapters by weight name for a new LoRA.

    Raises:
        ConfigError: rank, dropout or targets do not hold.
    """
    if options.rank < 1:
        raise ConfigError("lora", "rank is at least 1", options.rank, "choose a rank such as 8")
    if not 0.0 <= options.dropout < 1.0:
        raise ConfigError(
            "lora", "dropout lies in [0, 1)", options.dropout, "choose a rate such as 0.05"
        )
    most = max(config.width, config.feed_forward, config.heads * config.head_size, LEAST_MOST_RANK)
    if options.rank > most:
        # More than a side of the largest weight adds nothing that the product can express.
        rule = f"rank is at most {most} for this model"
        raise ConfigError("lora", rule, options.rank, "choose a rank such as 8")
    names = target_weights(config, options.targets)
    return {
        n: Adapter(
            options.rank,
            options.scale,
            trained=True,
            dropout=_dropout(n, options.dropout, seed),
        )
        for n in names
    }


def require_same(options: LoraOptions, adapters: Mapping[str, Adapter], loaded: Loaded) -> None:
    """Refuses an adapter file that is not what the options describe, field by field.

    Raises:
        ConfigError: rank, alpha or targets differ; the message names each.
    """
    wrong: list[str] = []
    if loaded.ranks != (options.rank,):
        wrong.append(f"rank {options.rank}, in the file {', '.join(map(str, loaded.ranks))}")
    if not math.isclose(loaded.alpha, options.exported_alpha, rel_tol=1e-6):
        wrong.append(f"alpha {options.exported_alpha:g}, in the file {loaded.alpha:g}")
    if set(loaded.factors) != set(adapters):
        extra = sorted(set(loaded.factors) ^ set(adapters))
        wrong.append(f"targets differ in {len(extra)} weights, such as {extra[0]}")
    if wrong:
        rule = "an adapter that is trained further is what the lora options say"
        raise ConfigError("adapter", rule, "; ".join(wrong), "set the lora options to the file's")


def _dropout(name: str, rate: float, seed: int) -> Mapping[str, int | float] | None:
    if rate == 0.0:
        return None
    threshold = min(int(rate * 2.0**32), 2**32 - 1)
    scale = float(np.float32(1.0 / (1.0 - rate)))
    return {
        "seed": seed,
        "tensor": name_word(f"{name}.lora_a"),
        "threshold": threshold,
        "scale": scale,
    }


def first_factor_a(name: str, rank: int, columns: int, seed: int) -> npt.NDArray[np.float32]:
    """lora_a (rank, columns), uniform in +-1/sqrt(columns), from the tensor's init stream."""
    words = stream_words(seed, Purpose.INIT, 0, f"{name}.lora_a", rank * columns)
    unit = (words.astype(np.float64) + 0.5) / 2.0**31 - 1.0
    return (unit / np.sqrt(columns)).astype(np.float32).reshape(rank, columns)
