"""Qwen3: per-head norms on q and k, head size of its own."""

from retrograd.families.family import Family

FAMILY = Family("qwen3", neox=True, qkv_bias=False, qk_norm=True)
