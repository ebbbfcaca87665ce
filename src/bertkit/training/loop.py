"""The one training loop: an objective, a source of micro-batches, and everything around them.

A step is a list of micro-batches. Each loss is divided by its count over the whole step, so that
how a step is cut into micro-batches changes nothing but the order of sums. The loop clips the
global gradient norm, updates, logs, evaluates, writes restart points, and continues from the
newest one when the run is started again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertkit.errors import Interrupted, UserError
from bertkit.model.encoder import set_activation_checkpointing, set_compute_dtype
from bertkit.progress import Progress, say
from bertkit.training.allocator import keep_memory, release_memory
from bertkit.training.batch import Batch, save_batches
from bertkit.training.budget import Pace, Plan
from bertkit.training.checkpoint import (
    BEST,
    best_loss,
    check_space_for_run,
    newest_restart_point,
    restore,
    save_restart_point,
)
from bertkit.training.config import TrainOptions
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.log import RunLog
from bertkit.training.meter import Meter
from bertkit.training.optimizer import make_optimizer
from bertkit.training.precision import compute_dtype
from bertkit.training.prefetch import prefetched
from bertkit.training.schedule import learning_rate
from bertkit.training.seeds import seed_micro_batch


@dataclass
class LossSums:
    """What an objective makes of one micro-batch.

    Attributes:
        losses: scalar sums, under the names that `Objective.counts` counts.
        metrics: name -> (sum, count), for the log only.
    """

    losses: dict[str, Tensor]
    metrics: dict[str, tuple[Tensor | float, int]] = field(default_factory=dict)


class Objective(Protocol):
    """A training objective: what a micro-batch costs."""

    def counts(self, batch: Batch) -> dict[str, int]:
        """How many terms each loss of the batch sums; known before the forward pass."""
        ...

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums: ...


class BatchSource(ABC):
    """Where micro-batches come from.

    `step` must be a pure function of its argument that several threads may call at once.
    """

    @abstractmethod
    def step(self, step: int) -> list[Batch]:
        """The micro-batches of a step, counted from 0."""

    def state(self) -> dict[str, Any]:
        """What spares a restarted run the work of finding its place again; may be empty."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes back what `state` returned."""

    def set_ends(self, ends: Sequence[int]) -> None:
        """Takes the steps at which the phases of a run with a budget end; they may change."""


Evaluate = Callable[[nn.Module], dict[str, float]]


@dataclass
class TrainResult:
    """How a training ended.

    Attributes:
        seconds: of training, over all parts of an interrupted run.
        resumed_from: the step that this part of the run continued from, 0 for a fresh start.
        dev: the last evaluation.
        plan: the last plan of a run with a budget.
    """

    steps: int
    seconds: float
    resumed_from: int
    dev: dict[str, float]
    plan: Plan | None = None


class NotFiniteError(UserError):
    """The loss or the gradient of a step is not finite; the weights are those before the step."""


def train(
    model: nn.Module,
    objective: Objective,
    source: BatchSource,
    options: TrainOptions,
    run: Path,
    evaluate: Evaluate | None = None,
    companions: Callable[[Path], None] | None = None,
    label: str = "train",
    pace: Pace | None = None,
    notes: Sequence[str] = (),
    stop: Callable[[], bool] | None = None,
) -> TrainResult:
    """Trains `model` in place, from the newest restart point in `run` if there is one.

    Args:
        evaluate: called between steps as `options.evaluate_steps` says and at the end; its
            numbers go to the log under the kind "dev".
        companions: writes into a restart point what should lie beside the weights.
        label: the name on the progress bar.
        pace: keeps to a budget of time; its plan goes before the steps of `options`.
        notes: go to the log where this part of the run begins.
        stop: asked at the start and after each evaluation: whether the steps so far are enough.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM, once a restart point is written.
        UserError: the loss is no longer finite, or a restart point cannot be written or read.
    """
    keep_memory()
    set_compute_dtype(model, compute_dtype(options.precision, next(model.parameters()).device))
    set_activation_checkpointing(model, options.activation_checkpointing)
    optimizer = make_optimizer(model, options)
    point = newest_restart_point(run)
    first = 0
    if point is not None:
        restore(point, model, optimizer)
        source.restore(point.source)
        first = point.step
    if pace is not None:
        pace.start(first, point.more.get("budget") if point is not None else None)
        options = _planned(options, source, pace.plan)
    if first > options.steps:
        raise UserError(
            f"the run in {run} is at step {first}, which is after its end at {options.steps}; "
            "give more steps, or another --output"
        )
    if first:
        say(f"continuing from step {first} of {options.steps}", options.quiet)
    if options.checkpoint_steps:
        check_space_for_run(run, model, options.keep_checkpoints, options.keep_best)
    log = RunLog(run, first)
    for note in notes:
        log.write("note", first, text=note)
    meter = Meter(log.newest("seconds"), int(log.newest("tokens")))
    best = best_loss(run) if options.keep_best else None
    dev: dict[str, float] = {}

    def save(step: int, name: str | None = None) -> None:
        more: dict[str, Any] = {"loss": dev["loss"]} if name == BEST else {}
        if pace is not None:
            more["budget"] = pace.state()
        save_restart_point(
            run,
            step,
            model,
            optimizer,
            source.state(),
            options.keep_checkpoints,
            companions,
            more,
            name,
        )

    def evaluate_now(step: int) -> dict[str, float]:
        assert evaluate is not None
        with meter.paused():
            model.eval()
            with torch.inference_mode():
                values = evaluate(model)
            model.train()
        log.write("dev", step, seconds=round(meter.seconds(), 2), **values)
        return values

    model.train()
    done = first
    stream = prefetched(source.step, done, options.steps, options.workers)
    try:
        with (
            InterruptGuard() as guard,
            Progress(label, options.steps, "steps", options.quiet, done=first) as progress,
        ):
            if stop is not None and first and stop():
                options = replace(options, steps=first)
            if pace is not None:
                pace.saved()  # what came before belongs to no step
            while done < options.steps:
                step, batches = next(stream)
                try:
                    values = update(model, objective, batches, optimizer, step, options)
                except NotFiniteError as error:
                    raise _stopped(error, run, step, batches) from error
                meter.add(values, sum(batch.inputs.tokens for batch in batches))
                done = step + 1
                last = done == options.steps
                stopping = guard.received is not None and not last
                saving = stopping or bool(
                    options.checkpoint_steps and (done % options.checkpoint_steps == 0 or last)
                )
                if pace is not None:
                    pace.stepped(step)
                    saving = saving or pace.due(done)
                # A restart point closes a window of the log, so that none is lost or told twice.
                if done % options.log_steps == 0 or last or saving:
                    log.write("train", done, **meter.window())
                progress.advance(1, meter.detail())
                if evaluate is not None and (
                    last or (options.evaluate_steps and done % options.evaluate_steps == 0)
                ):
                    dev = evaluate_now(done)
                    if pace is not None:
                        pace.evaluated()
                    if stop is not None and not last and stop():
                        options = replace(options, steps=done)
                    if options.keep_best and dev["loss"] < (math.inf if best is None else best):
                        best = dev["loss"]
                        save(done, BEST)
                if pace is not None and saving and not (stopping or last) and pace.look(done):
                    stream.close()
                    before, options = options.steps, _planned(options, source, pace.plan)
                    text = (
                        f"{options.steps} steps instead of {before} fit the minutes, at "
                        + " and ".join(f"{each:.3g}" for each in pace.plan.costs.steps)
                        + " s a step"
                    )
                    log.write("note", done, text=text)
                    say(f"after step {done}: {text}", options.quiet)
                    progress.resize(options.steps)
                    stream = prefetched(source.step, done, options.steps, options.workers)
                if saving:
                    save(done)
                if pace is not None:
                    pace.saved()
                if stopping:
                    assert guard.received is not None
                    raise Interrupted(
                        f"stopped after step {done} of {options.steps}, all of it saved in {run}; "
                        "run the same command again to go on",
                        guard.received,
                    )
            if evaluate is not None and first == options.steps:
                dev = evaluate_now(first)
    finally:
        stream.close()
        log.close()
        optimizer.state.clear()
        release_memory()
    plan = pace.plan if pace is not None else None
    return TrainResult(options.steps, meter.seconds(), first, dev, plan)


def _planned(options: TrainOptions, source: BatchSource, plan: Plan) -> TrainOptions:
    """The options of a run that ends as planned; tells the source where its phases end."""
    source.set_ends(plan.phase_ends)
    return replace(options, steps=plan.steps, warmup_steps=plan.warmup_steps)


def update(
    model: nn.Module,
    objective: Objective,
    batches: list[Batch],
    optimizer: torch.optim.Optimizer,
    step: int,
    options: TrainOptions,
) -> dict[str, tuple[float, float]]:
    """One update of the weights.

    Returns name -> (sum, count) for the log: each loss, each metric, `gradient_norm` and
    `learning_rate`. Raises NotFiniteError when the loss or the gradient is not finite; the
    weights are then still those of the step before.
    """
    device = next(model.parameters()).device
    totals: dict[str, int] = defaultdict(int)
    for batch in batches:
        for name, count in objective.counts(batch).items():
            totals[name] += count
    logged: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, batch in enumerate(batches):
        seed_micro_batch(options.seed, step, number)
        sums = objective(model, batch.to(device))
        loss = torch.stack(
            [sums.losses[name].float() / total for name, total in totals.items() if total]
        ).sum()
        loss.backward()
        for name, value in sums.losses.items():
            logged[f"{name}_loss"][0] += float(value.detach())
        for name, (metric, count) in sums.metrics.items():
            logged[name][0] += float(metric)
            logged[name][1] += count
    for name, total in totals.items():
        logged[f"{name}_loss"][1] = total
    norm = torch.nn.utils.clip_grad_norm_(
        model.parameters(), options.clip_norm or float("inf"), foreach=True
    )
    total_loss = sum(logged[f"{name}_loss"][0] / total for name, total in totals.items() if total)
    if not torch.isfinite(norm) or not math.isfinite(total_loss):
        what = "gradient" if math.isfinite(total_loss) else "loss"
        raise NotFiniteError(f"the {what} is no longer finite at step {step + 1}")
    rate = learning_rate(step, options)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_share"]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    values = {name: (total, count) for name, (total, count) in logged.items()}
    values["loss"] = (total_loss, 1)
    values["gradient_norm"] = (float(norm), 1)
    values["learning_rate"] = (rate, 1)
    return values


def _stopped(error: NotFiniteError, run: Path, step: int, batches: list[Batch]) -> UserError:
    """Writes the batch that ended a run and says where, and what to do."""
    path = run / f"not-finite-step-{step + 1:08d}.safetensors"
    save_batches(batches, path)
    point = newest_restart_point(run)
    good = "none was" if point is None else f"that of step {point.step} is"
    return UserError(
        f"{error}; its batch is in {path}; of the restart points {good} written before it: "
        "start a run with a lower --learning-rate or more warm-up"
    )
