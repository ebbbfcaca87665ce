"""The one training loop: an objective, a source of micro-batches, and everything around them.

It updates the weights (`update.py`), logs, evaluates, writes restart points, and continues from the
newest one when the run is started again. Of many processes (`processes.py`) all go the same steps;
the first one writes and speaks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertkit.errors import Interrupted, UserError
from bertkit.model.encoder import set_activation_checkpointing, set_compiled, set_compute_dtype
from bertkit.progress import Progress, say
from bertkit.training.allocator import keep_memory, release_memory
from bertkit.training.batch import save_batches
from bertkit.training.budget import Pace, Plan
from bertkit.training.checkpoint import (
    BEST,
    best_loss,
    check_space_for_run,
    newest_restart_point,
    restore,
    save_restart_point,
)
from bertkit.training.compilation import compiles
from bertkit.training.config import TrainOptions
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.log import RunLog
from bertkit.training.meter import Meter
from bertkit.training.objective import BatchSource, Evaluate, Objective
from bertkit.training.optimizer import make_optimizer, moments
from bertkit.training.precision import compute_dtype
from bertkit.training.prefetch import prefetched
from bertkit.training.processes import Processes, alone
from bertkit.training.update import NotFiniteError, Numbered, Updater


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


@dataclass
class Witness:
    """What a run shows of itself on the way; the first process calls these.

    Attributes:
        first_step: what to say about the means of the first step of all, in words.
        guesses: what the model says now, for the log; called with each restart point.
        report: called when a restart point or the end has been written.
    """

    first_step: Callable[[dict[str, float]], list[str]] | None = None
    guesses: Callable[[nn.Module], dict[str, Any]] | None = None
    report: Callable[[], object] | None = None


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
    witness: Witness | None = None,
    processes: Processes | None = None,
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
        witness: what to show on the way.
        processes: those that train this run together; by default this one alone.
        stop: asked at the start and after each evaluation: whether the steps so far are enough.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM, once a restart point is written.
        UserError: the loss is no longer finite, or a restart point cannot be written or read.
    """
    processes, witness = processes or alone(), witness or Witness()
    options = replace(options, quiet=options.quiet or not processes.leads)
    keep_memory()
    model.to(processes.device)
    set_compute_dtype(model, compute_dtype(options.precision, processes.device))
    set_activation_checkpointing(model, options.activation_checkpointing)
    set_compiled(model, compiles(options.compile, options.steps, processes.device))
    optimizer = make_optimizer(model, options, processes)
    point = processes.first(lambda: newest_restart_point(run))
    first = 0
    if point is not None:
        restore(point, model, optimizer, processes)
        source.restore(point.source)
        first = point.step
    if pace is not None:
        pace.start(first, point.more.get("budget") if point is not None else None)
        pace.plan = processes.first(lambda: pace.plan)
        options = _planned(options, source, pace.plan)
    if first > options.steps:
        raise UserError(
            f"the run in {run} is at step {first}, which is after its end at {options.steps}; "
            "give more steps, or another --output"
        )
    if first:
        say(f"continuing from step {first} of {options.steps}", options.quiet)
    if options.checkpoint_steps:
        processes.first(
            lambda: check_space_for_run(run, model, options.keep_checkpoints, options.keep_best)
        )
    log = RunLog(run, first) if processes.leads else None

    def write(kind: str, step: int, **values: Any) -> None:
        if log is not None:
            log.write(kind, step, **values)

    for note in notes:
        write("note", first, text=note)
    meter = Meter(log.newest("seconds"), int(log.newest("tokens"))) if log else Meter()
    best = processes.first(lambda: best_loss(run)) if options.keep_best else None
    dev: dict[str, float] = {}

    def save(step: int, name: str | None = None) -> None:
        more: dict[str, Any] = {"loss": dev["loss"]} if name == BEST else {}
        if pace is not None:
            more["budget"] = pace.state()
        state = moments(model, optimizer, processes)
        processes.first(
            lambda: save_restart_point(
                run,
                step,
                model,
                state,
                source.state(),
                options.keep_checkpoints,
                companions,
                more,
                name,
                processes.count,
            )
        )

    def evaluate_now(step: int) -> dict[str, float]:
        assert evaluate is not None
        with meter.paused(), _evaluating(model):
            values = evaluate(model)
        write("dev", step, seconds=round(meter.seconds(), 2), **values)
        return values

    def show(step: int) -> None:
        if not processes.leads:
            return
        with meter.paused(), _evaluating(model):
            if witness.guesses is not None:
                write("guesses", step, **witness.guesses(model))
            if witness.report is not None:
                witness.report()

    def batches_of(step: int) -> Numbered:
        batches = source.share(step, processes.rank, processes.count)
        if processes.device.type == "cuda":
            batches = [(number, batch.pinned()) for number, batch in batches]
        return batches

    model.train()
    update = Updater(model, objective, optimizer, processes)
    done = first
    stream = prefetched(batches_of, done, options.steps, options.workers)
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
                with meter.waiting():
                    step, batches = next(stream)
                try:
                    values = update(step, batches, options)
                except NotFiniteError as error:
                    raise _stopped(error, run, step, batches, processes) from error
                meter.add(values, int(values.pop("tokens")[0]))
                done = step + 1
                last = done == options.steps
                if pace is not None:
                    pace.stepped(step)
                # What one process alone is told, by a signal or a clock, all are told.
                received, due = processes.largest(
                    [guard.received or 0, processes.leads and pace is not None and pace.due(done)]
                )
                stopping = bool(received) and not last
                regular = options.checkpoint_steps and (
                    done % options.checkpoint_steps == 0 or last
                )
                saving = bool(stopping or regular or due)
                # A restart point closes a window of the log, so that none is lost or told twice.
                if done % options.log_steps == 0 or last or saving:
                    write("train", done, **meter.window())
                if step == 0 and witness.first_step is not None and processes.leads:
                    means = {name: total / count for name, (total, count) in values.items()}
                    for text in witness.first_step(means):
                        write("note", done, text=text)
                        say(text, options.quiet)
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
                if pace is not None and saving and not (stopping or last):
                    before = options.steps
                    pace.plan = processes.first(functools.partial(pace.look, done))
                    if pace.plan.steps != before:
                        stream.close()
                        options = _planned(options, source, pace.plan)
                        text = (
                            f"{options.steps} steps instead of {before} fit the minutes, at "
                            + " and ".join(f"{each:.3g}" for each in pace.plan.costs.steps)
                            + " s a step"
                        )
                        write("note", done, text=text)
                        say(f"after step {done}: {text}", options.quiet)
                        progress.resize(options.steps)
                        stream = prefetched(batches_of, done, options.steps, options.workers)
                if saving or last:
                    show(done)
                if saving:
                    save(done)
                if pace is not None:
                    pace.saved()
                if stopping:
                    raise Interrupted(
                        f"stopped after step {done} of {options.steps}, all of it saved in {run}; "
                        "run the same command again to go on",
                        int(received),
                    )
            if evaluate is not None and first == options.steps:
                dev = evaluate_now(first)
    finally:
        stream.close()
        if log is not None:
            log.close()
        optimizer.state.clear()
        release_memory()
    plan = pace.plan if pace is not None else None
    return TrainResult(options.steps, meter.seconds(), first, dev, plan)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """The model without dropout and without gradients."""
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train()


def _planned(options: TrainOptions, source: BatchSource, plan: Plan) -> TrainOptions:
    """The options of a run that ends as planned; tells the source where its phases end."""
    source.set_ends(plan.phase_ends)
    return replace(options, steps=plan.steps, warmup_steps=plan.warmup_steps)


def _stopped(
    error: NotFiniteError, run: Path, step: int, batches: Numbered, processes: Processes
) -> UserError:
    """Writes the batch that ended a run and says where, and what to do."""
    of = f"-process-{processes.rank}" if processes.count > 1 else ""
    path = run / f"not-finite-step-{step + 1:08d}{of}.safetensors"
    save_batches(dict(batches), path)
    point = newest_restart_point(run)
    good = "none was" if point is None else f"that of step {point.step} is"
    return UserError(
        f"{error}; its batch is in {path}; of the restart points {good} written before it: "
        "start a run with a lower --learning-rate or more warm-up"
    )
