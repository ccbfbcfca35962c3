"""Llama and models of its shape (SmolLM2, Mistral): interleaved rotary pairs, no biases."""

from retrograd.families.family import Family

FAMILY = Family("llama", neox=False, qkv_bias=False, qk_norm=False)
