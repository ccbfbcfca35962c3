"""Oracle of the language-model head with cross entropy.

nll[t] = log sum_v exp(h[t].w[v]) - h[t].w[targets[t]].
"""

import numpy as np
from jaxtyping import Float64, Int32

from oracles.array import Array, Index


def forward(
    *, h: Float64[Array, "T C"], w: Float64[Array, "V C"], targets: Int32[Index, " T"]
) -> dict[str, Array]:
    """nll (T) and its gradient with respect to h, dh_unit (T, C).

    Targets below 0 are ignored and give zeros.

    The target's logit is subtracted before the exponentials are summed: nll = log sum exp(z_v -
    z_y) keeps its digits when it is small.
    """
    active = targets >= 0
    nll, dh = np.zeros(len(h)), np.zeros_like(h)
    z, y = h[active] @ w.T, targets[active]
    rows = np.arange(len(z))
    margins = z - z[rows, y][:, None]
    top = margins.max(axis=1, initial=-np.inf)
    weight = np.exp(margins - top[:, None])
    total = weight.sum(axis=1)
    others = weight.copy()
    others[rows, y] = 0.0
    confident = top <= 0.0  # the target is the maximum: nll = log1p(the others)
    nll[active] = np.where(
        confident, np.log1p(np.where(confident, others.sum(axis=1), 0.0)), top + np.log(total)
    )
    p = weight / total[:, None]
    p[rows, y] = -others.sum(axis=1) / total
    dh[active] = p @ w
    return {"nll": nll, "dh_unit": dh}


def forward_magnitude(*, h: Array, w: Array, targets: Index) -> dict[str, Array]:
    """The logits' sizes, weighted as they enter.

    dh_unit by the terms that cancel when the model is confident.
    """
    active = targets >= 0
    nll, dh = np.zeros(len(h)), np.zeros_like(h)
    z, y = h[active] @ w.T, targets[active]
    sizes = np.abs(h[active]) @ np.abs(w).T
    rows = np.arange(len(z))
    top = z.max(axis=1, initial=-np.inf)
    p = np.exp(z - top[:, None])
    total = p.sum(axis=1)
    p /= total[:, None]
    average = np.sum(p * sizes, axis=1)
    nll[active] = 1.0 + average + sizes[rows, y] + np.abs(top) + np.log(total)
    spread = 1.0 + sizes + (average + np.abs(top))[:, None]
    dh[active] = (p * spread) @ np.abs(w) + np.abs(w[y])
    return {"nll": nll, "dh_unit": dh}


def backward(*, dnll: Float64[Array, " T"], dh_unit: Float64[Array, "T C"]) -> dict[str, Array]:
    """dh[t,:] = dnll[t] dh_unit[t,:]."""
    return {"dh": dnll[:, None] * dh_unit}
