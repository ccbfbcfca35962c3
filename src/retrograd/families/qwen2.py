"""Qwen2 and Qwen2.5: biases on q, k and v."""

from retrograd.families.family import Family

FAMILY = Family("qwen2", neox=True, qkv_bias=True, qk_norm=False)
