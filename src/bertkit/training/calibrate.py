"""A budget of minutes becomes a number of steps, once, from a short measurement."""

from __future__ import annotations

import copy
import time

from torch import nn

from bertkit.errors import UserError
from bertkit.model.encoder import set_compute_dtype
from bertkit.training.allocator import keep_memory
from bertkit.training.config import TrainOptions
from bertkit.training.loop import BatchSource, Objective, update
from bertkit.training.optimizer import make_optimizer
from bertkit.training.precision import compute_dtype

WARM_STEPS = 2
MEASURED_SECONDS = 6.0
MEASURED_STEPS = 5
"""At least so many steps and so many seconds are measured, after the warm ones."""


def seconds_per_step(
    model: nn.Module, objective: Objective, source: BatchSource, options: TrainOptions
) -> float:
    """Seconds that a step takes here, batches included; `model` itself is not trained."""
    keep_memory()
    trial = copy.deepcopy(model)
    set_compute_dtype(trial, compute_dtype(options.precision, next(trial.parameters()).device))
    optimizer = make_optimizer(trial, options)
    trial.train()
    step = 0
    started = 0.0
    while True:
        if step == WARM_STEPS:
            started = time.monotonic()
        update(trial, objective, source.step(step), optimizer, step, options)
        step += 1
        elapsed = time.monotonic() - started
        if step >= WARM_STEPS + MEASURED_STEPS and elapsed >= MEASURED_SECONDS:
            return elapsed / (step - WARM_STEPS)


def steps_in(minutes: float, step_seconds: float) -> int:
    """Steps that fit; raises UserError when not even one does."""
    steps = int(minutes * 60 / step_seconds)
    if steps < 1:
        raise UserError(
            f"one step takes {step_seconds:.0f} s here, longer than --max-minutes {minutes:g}; "
            "give more minutes, a smaller --model or a smaller --batch-size"
        )
    return steps
