"""Replay of the embedding: a copy forwards, a sum in token order backwards."""

import numpy as np

from oracles.array import Index, Single


def forward(*, ids: Index, w: Single) -> dict[str, Single]:
    """Rows of the decoded table; +0 for an id outside it."""
    y = np.zeros((len(ids), w.shape[1]), dtype=np.float32)
    for t, token in enumerate(ids):
        if 0 <= token < len(w):
            y[t] = w[token]
    return {"y": y}


def backward_weight(*, dy: Single, ids: Index, c: Single) -> dict[str, Single]:
    """dw = c, then one addition per token, in order."""
    dw = c.copy()
    for t, token in enumerate(ids):
        if 0 <= token < len(c):
            dw[token] = dw[token] + dy[t]
    return {"dw": dw}
