"""The learning rate as a function of the step.

The reference release decays from step 0 and replaces the value during the warm-up, which makes
the rate fall by the warm-up's share at its end; here the decay starts from the peak, and neither
the first nor the last step runs at rate zero.
"""

from __future__ import annotations

from bertkit.training.config import TrainOptions


def learning_rate(step: int, options: TrainOptions) -> float:
    """The rate of update number `step` (from 0): linear warm-up to the peak, then the decay."""
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    if options.schedule == "constant":
        return options.learning_rate
    return options.learning_rate * (options.steps - step) / (options.steps - options.warmup_steps)
