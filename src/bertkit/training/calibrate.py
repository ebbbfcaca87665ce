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
from bertkit.training.budget import Costs
from bertkit.training.checkpoint import save_restart_point
from bertkit.training.config import TrainOptions
from bertkit.training.objective import BatchSource, Evaluate, Objective
from bertkit.training.optimizer import moments
from bertkit.training.processes import Processes, alone
from bertkit.training.ready import make_ready
from bertkit.training.update import Updater

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
    processes: Processes | None = None,
) -> Costs:
    """Measures each phase at its own length, an evaluation and a restart point.

    A copy of `model` is trained; the folder `run` is left as it was. Many processes measure
    together, and the first one's clock counts.

    Args:
        seconds: the budget; a small share of it is used.
    """
    processes = processes or alone()
    trial = copy.deepcopy(model)
    optimizer = make_ready(trial, options, processes)
    update = Updater(trial, objective, optimizer, processes)
    most = BUDGET_SHARE * seconds / len(phases)
    steps = tuple(
        seconds_per_step(update, source, options, most, clock, processes) for source in phases
    )
    evaluation = 0.0
    if evaluate is not None:
        began = clock()
        trial.eval()
        with torch.inference_mode():
            evaluate(trial)
        evaluation = clock() - began
    point = 0.0
    state = moments(trial, optimizer, processes)
    if options.checkpoint_steps and processes.leads:
        for old in run.glob(".trial-*"):  # of a calibration that was killed
            shutil.rmtree(old, ignore_errors=True)
        began = clock()
        with disk_errors(run), tempfile.TemporaryDirectory(dir=run, prefix=".trial-") as folder:
            save_restart_point(Path(folder), 0, trial, state, {}, keep=1)
        point = clock() - began
    return processes.first(lambda: Costs(steps, evaluation, point))


def seconds_per_step(
    update: Updater,
    source: BatchSource,
    options: TrainOptions,
    most: float,
    clock: Callable[[], float],
    processes: Processes,
) -> float:
    """Seconds that the median step takes here, batches included; it trains the model.

    The median, for one slow moment should not count. Takes about `most` seconds at most.
    """
    update.model.train()
    started = clock()
    measured: list[float] = []
    step, before = 0, 0.0
    while True:
        update(step, source.share(step, processes.rank, processes.count), options)
        (elapsed,) = processes.largest([clock() - started])  # the same number everywhere
        if step >= WARM_STEPS or (step and elapsed >= most):
            measured.append(elapsed - before)
        step, before = step + 1, elapsed
        enough = len(measured) >= MEASURED_STEPS and sum(measured) >= MEASURED_SECONDS
        if enough or (measured and elapsed >= most):
            return median(measured)
