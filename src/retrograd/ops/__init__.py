"""The op table: one file per op, found here by name."""

from retrograd.ops import (
    adamw,
    add,
    attention,
    bias,
    clip,
    dequantize,
    dropout,
    embedding,
    fill,
    linear_cross_entropy,
    matmul,
    rms_norm,
    rope,
    scatter_rows,
    sgd,
    sum_squares,
    swiglu,
)
from retrograd.ops.op import Inferred as Inferred
from retrograd.ops.op import Kernel as Kernel
from retrograd.ops.op import Op as Op

_MODULES = (
    adamw,
    add,
    attention,
    bias,
    clip,
    dequantize,
    dropout,
    embedding,
    fill,
    linear_cross_entropy,
    matmul,
    rms_norm,
    rope,
    scatter_rows,
    sgd,
    sum_squares,
    swiglu,
)

OPS = {module.OP.name: module.OP for module in _MODULES}
