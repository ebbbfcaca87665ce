"""What the parts of a run take here, from a short measurement before it starts."""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from torch import nn

from bertkit.files import disk_errors
from bertkit.model.encoder import set_activation_checkpointing, set_compute_dtype
from bertkit.training.allocator import keep_memory
from bertkit.training.budget import Costs
from bertkit.training.checkpoint import save_restart_point
from bertkit.training.config import TrainOptions
from bertkit.training.loop import BatchSource, Evaluate, Objective, update
from bertkit.training.optimizer import make_optimizer
from bertkit.training.precision import compute_dtype

WARM_STEPS = 2
MEASURED_SECONDS = 6.0
MEASURED_STEPS = 5
"""At least so many steps and so many seconds are measured, after the warm ones..."""

BUDGET_SHARE = 0.03
"""...but for no longer than this share of the budget, once a step has been measured."""


def measure(
    model: nn.Module,
    objective: Objective,
    phases: Sequence[BatchSource],
    options: TrainOptions,
    run: Path,
    seconds: float,
    evaluate: Evaluate | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Costs:
    """Measures each phase at its own length, an evaluation and a restart point.

    A copy of `model` is trained; the folder `run` is left as it was.

    Args:
        seconds: the budget; a small share of it is used.
    """
    keep_memory()
    trial = copy.deepcopy(model)
    set_compute_dtype(trial, compute_dtype(options.precision, next(trial.parameters()).device))
    set_activation_checkpointing(trial, options.activation_checkpointing)
    optimizer = make_optimizer(trial, options)
    most = BUDGET_SHARE * seconds / len(phases)
    steps = tuple(
        seconds_per_step(trial, objective, source, optimizer, options, most, clock)
        for source in phases
    )
    evaluation = 0.0
    if evaluate is not None:
        began = clock()
        trial.eval()
        with torch.inference_mode():
            evaluate(trial)
        evaluation = clock() - began
    point = 0.0
    if options.checkpoint_steps:
        for old in run.glob(".trial-*"):  # of a calibration that was killed
            shutil.rmtree(old, ignore_errors=True)
        began = clock()
        with disk_errors(run), tempfile.TemporaryDirectory(dir=run, prefix=".trial-") as folder:
            save_restart_point(Path(folder), 0, trial, optimizer, {}, keep=1)
        point = clock() - began
    return Costs(steps, evaluation, point)


def seconds_per_step(
    model: nn.Module,
    objective: Objective,
    source: BatchSource,
    optimizer: torch.optim.Optimizer,
    options: TrainOptions,
    most: float,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Seconds that the median step takes here, batches included; it trains `model`.

    The median, for one slow moment should not count. Takes about `most` seconds at most.
    """
    model.train()
    started = clock()
    measured: list[float] = []
    step = 0
    while True:
        began = clock()
        update(model, objective, source.step(step), optimizer, step, options)
        now = clock()
        if step >= WARM_STEPS or (step and now - started >= most):
            measured.append(now - began)
        step += 1
        enough = len(measured) >= MEASURED_STEPS and sum(measured) >= MEASURED_SECONDS
        if enough or (measured and now - started >= most):
            return median(measured)
