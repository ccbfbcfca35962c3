"""Learning-rate schedules, in float64: linear warm-up, then constant, linear or cosine."""

import math

from retrograd.config.options import OptimizerOptions


def learning_rate(options: OptimizerOptions, step: int, total_steps: int) -> float:
    """The rate of step ``step`` (counted from 1) of ``total_steps``.

    Warm-up rises linearly and reaches the peak at step ``warmup_steps``. The decay starts from the
    peak at the next step and would reach ``final_rate_share`` of it one step after the last, so
    that no step is without effect.
    """
    peak, warmup = options.learning_rate, options.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if options.schedule == "constant":
        return peak
    progress = (step - 1 - warmup) / max(total_steps - warmup, 1)
    progress = min(progress, 1.0)
    share = options.final_rate_share
    remaining = (
        1.0 - progress
        if options.schedule == "linear"
        else 0.5 * (1.0 + math.cos(math.pi * progress))
    )
    return peak * (share + (1.0 - share) * remaining)
