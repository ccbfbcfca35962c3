"""Learning-rate schedules, in float64: linear warm-up, then constant, linear or cosine."""

import math

from retrograd.config.options import OptimizerOptions


def learning_rate(options: OptimizerOptions, step: int, total_steps: int) -> float:
    """The rate of step ``step`` (counted from 1) of ``total_steps``.

    Warm-up rises linearly and reaches the peak at step ``warmup_steps``; the decay ends at
    ``final_rate_share`` of
    the peak at the last step.
    """
    peak, warmup = options.learning_rate, options.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    if options.schedule == "constant":
        return peak
    progress = (step - warmup) / max(total_steps - warmup, 1)
    progress = min(progress, 1.0)
    share = options.final_rate_share
    remaining = (
        1.0 - progress
        if options.schedule == "linear"
        else 0.5 * (1.0 + math.cos(math.pi * progress))
    )
    return peak * (share + (1.0 - share) * remaining)
