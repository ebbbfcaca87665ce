"""The learning rate as a function of the step.

    linear     warm-up to the peak, then a straight fall to near zero at the last step
    cosine     the same with half a cosine wave as the fall
    constant   stays at the peak
    wsd        warm-up, stable, decay: at the peak until the last `decay` of the steps, then linear

The reference release decays from step 0 and replaces the value during the warm-up, so that the
rate jumps down by the warm-up's share at its end, and step 0 runs at rate zero. That is the option
`reference_warmup`; without it the decay starts from the peak and no step is wasted at rate zero.
"""

from __future__ import annotations

import math

from bertkit.training.config import TrainOptions


def learning_rate(step: int, options: TrainOptions) -> float:
    """The rate of update number `step` (from 0): linear warm-up to the peak, then the decay."""
    peak, steps, warmup = options.learning_rate, options.steps, options.warmup_steps
    if options.reference_warmup:
        if step < warmup:
            return peak * step / warmup
        return peak * _remaining(step, 0, steps, options.schedule)
    if step < warmup:
        return peak * (step + 1) / warmup
    if options.schedule == "constant":
        return peak
    if options.schedule == "wsd":
        begin = max(warmup, steps - round(options.decay * steps))
        return peak if step < begin else peak * (steps - step) / (steps - begin)
    if options.schedule == "linear":
        return peak * (steps - step) / (steps - warmup)
    return peak * _remaining(step, warmup, steps, options.schedule)


def _remaining(step: int, begin: int, steps: int, schedule: str) -> float:
    """The share of the peak that is left at a step of a decay from `begin` to `steps`."""
    left = (steps - step) / (steps - begin)
    return 0.5 * (1.0 - math.cos(math.pi * left)) if schedule == "cosine" else left
