"""Replay of the head's backward: one product. Its forward is a bounded row and has no replay."""

from oracles.array import Single


def backward(*, dnll: Single, dh_unit: Single) -> dict[str, Single]:
    """dh[t,:] = dnll[t] dh_unit[t,:]."""
    return {"dh": dnll[:, None] * dh_unit}
