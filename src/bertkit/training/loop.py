"""The one training loop: an objective, a source of micro-batches, and everything around them.

It updates the weights (`update.py`), logs, evaluates, writes restart points, and continues from the
newest one when the run is started again. Of many processes (`processes.py`) all go the same steps;
the first one writes and speaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGINT
from typing import Any

import torch
from torch import nn

from bertkit.errors import Interrupted, UserError
from bertkit.progress import Progress, say
from bertkit.training.allocator import release_memory
from bertkit.training.batch import save_batches
from bertkit.training.budget import Pace, Plan
from bertkit.training.checkpoint import (
    BEST,
    best_loss,
    check_end,
    check_space_for_run,
    newest_restart_point,
    restore,
    save_restart_point,
)
from bertkit.training.config import TrainOptions
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.log import RunLog
from bertkit.training.meter import Meter
from bertkit.training.objective import BatchSource, Evaluate, Objective
from bertkit.training.optimizer import moments
from bertkit.training.prefetch import prefetched
from bertkit.training.processes import Processes, alone
from bertkit.training.ready import make_ready
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
    processes = processes or alone()
    training = _Training(
        model,
        objective,
        source,
        replace(options, quiet=options.quiet or not processes.leads),
        run,
        evaluate,
        companions,
        label,
        pace,
        witness or Witness(),
        processes,
        stop or (lambda: False),
    )
    first = training.start(notes)
    try:
        training.go_on()
    finally:
        training.close()
    plan = pace.plan if pace is not None else None
    return TrainResult(training.options.steps, training.meter.seconds(), first, training.dev, plan)


@dataclass
class _Training:
    """A call of `train`: its arguments, and where it is.

    Attributes:
        options: with the steps that are planned now.
        done: steps of the run so far, in all its parts.
        dev: the last evaluation.
    """

    model: nn.Module
    objective: Objective
    source: BatchSource
    options: TrainOptions
    run: Path
    evaluate: Evaluate | None
    companions: Callable[[Path], None] | None
    label: str
    pace: Pace | None
    witness: Witness
    processes: Processes
    stop: Callable[[], bool]

    def start(self, notes: Sequence[str]) -> int:
        """Makes all ready, as the newest restart point left it; returns the step of that."""
        options, model, processes = self.options, self.model, self.processes
        self.optimizer = make_ready(model, options, processes)
        self.done = self._restore()
        options = self.options
        check_end(self.run, self.done, options.steps)
        if self.done:
            say(f"continuing from step {self.done} of {options.steps}", options.quiet)
        if options.checkpoint_steps:
            processes.first(lambda: check_space_for_run(self.run, model, options))
        self.log = RunLog(self.run, self.done) if processes.leads else None
        for note in notes:
            self._write("note", text=note)
        log = self.log
        self.meter = Meter(log.newest("seconds"), int(log.newest("tokens"))) if log else Meter()
        self.best = processes.first(lambda: best_loss(self.run)) if options.keep_best else None
        self.dev: dict[str, float] = {}
        model.train()
        self.update = Updater(model, self.objective, self.optimizer, processes)
        self.stream = self._batches()
        return self.done

    def go_on(self) -> None:
        """Makes the steps that are left."""
        options = self.options
        with (
            InterruptGuard() as guard,
            Progress(self.label, options.steps, "steps", options.quiet, self.done) as progress,
        ):
            if self.done and self.stop():
                self._end_here()
            nothing_left = self.done == self.options.steps
            if self.pace is not None:
                self.pace.saved()  # what came before belongs to no step
            while self.done < self.options.steps:
                self._step(guard, progress)
            if nothing_left and not self._evaluate_last(guard):
                raise self._interrupted(guard.received)

    def close(self) -> None:
        self.stream.close()
        if self.log is not None:
            self.log.close()
        self.optimizer.state.clear()
        release_memory()

    def _restore(self) -> int:
        """Takes up the newest restart point and the plan of the pace; returns the step."""
        first, budget = 0, None
        point = self.processes.first(lambda: newest_restart_point(self.run))
        if point is not None:
            restore(point, self.model, self.optimizer, self.processes)
            self.source.restore(point.source)
            first, budget = point.step, point.more.get("budget")
        pace = self.pace
        if pace is not None:
            pace.start(first, budget)
            self._follow(pace, self.processes.first(lambda: pace.plan))
        return first

    def _step(self, guard: InterruptGuard, progress: Progress) -> None:
        """One update, and all that is due after it."""
        options, pace = self.options, self.pace
        values = self._updated()
        done = self.done
        last = done == options.steps
        # What one process alone is told, by a signal or a clock, all are told.
        received, due = self.processes.largest(
            [
                guard.received or 0,
                self.processes.leads and pace is not None and pace.due(done),
            ]
        )
        stopping = bool(received)
        regular = options.checkpoint_steps and (done % options.checkpoint_steps == 0 or last)
        saving = bool(stopping or regular or due)
        # A restart point closes a window of the log, so that none is lost or told twice.
        if done % options.log_steps == 0 or last or saving:
            self._write("train", **self.meter.window())
        if done == 1:
            self._tell_of_the_first(values)
        progress.advance(1, self.meter.detail())
        if not last and options.evaluate_steps and done % options.evaluate_steps == 0:
            self._evaluate()
        elif last and not stopping:  # a stopped run is evaluated when it goes on
            stopping = not self._evaluate_last(guard)
            saving = saving or stopping
        if pace is not None and saving and not (stopping or last):
            self._look_again(pace, progress)
        if saving or last:
            self._show()
        if saving:
            self._save()
        if pace is not None:
            pace.saved()
        if stopping:
            raise self._interrupted(int(received) or guard.received)

    def _updated(self) -> dict[str, tuple[float, float]]:
        """Updates the weights once; returns the sums and counts of the losses."""
        with self.meter.waiting():
            step, batches = next(self.stream)
        try:
            values = self.update(step, batches, self.options)
        except NotFiniteError as error:
            raise _stopped(error, self.run, step, batches, self.processes) from error
        self.meter.add(values, int(values.pop("tokens")[0]))
        self.done = step + 1
        if self.pace is not None:
            self.pace.stepped(step)
        return values

    def _evaluate(self) -> None:
        """Evaluates, ends the run where the steps so far are enough, keeps the best weights."""
        if self.evaluate is None:
            return
        with self.meter.paused(), _evaluating(self.model):
            self.dev = self.evaluate(self.model)
        self._write("dev", seconds=round(self.meter.seconds(), 2), **self.dev)
        if self.pace is not None:
            self.pace.evaluated()
        if self.done < self.options.steps and self.stop():
            self._end_here()
        best = math.inf if self.best is None else self.best
        if self.options.keep_best and self.dev["loss"] < best:
            self.best = self.dev["loss"]
            self._save(BEST)

    def _evaluate_last(self, guard: InterruptGuard) -> bool:
        """Evaluates after the last step; returns whether that came to its end.

        It may be long, and needs nothing but the weights: a signal ends it at once, and the run
        begins it anew when it goes on. Many processes must not leave each other alone in it.
        """
        if self.processes.count > 1:
            self._evaluate()
            return True
        try:
            with guard.obeying():
                self._evaluate()
        except KeyboardInterrupt:
            return False
        return True

    def _interrupted(self, signal: int | None) -> Interrupted:
        return Interrupted(
            f"stopped after step {self.done} of {self.options.steps}, all of it saved in "
            f"{self.run}; run the same command again to go on",
            signal or SIGINT,
        )

    def _end_here(self) -> None:
        self.options = replace(self.options, steps=self.done)

    def _follow(self, pace: Pace, plan: Plan) -> None:
        """Ends where a plan says, and tells the source where its phases end."""
        pace.plan = plan
        self.source.set_ends(plan.phase_ends)
        self.options = replace(self.options, steps=plan.steps, warmup_steps=plan.warmup_steps)

    def _look_again(self, pace: Pace, progress: Progress) -> None:
        """Plans anew what is left of the time."""
        before = self.options.steps
        pace.plan = self.processes.first(lambda: pace.look(self.done))
        if pace.plan.steps == before:
            return
        self.stream.close()
        self._follow(pace, pace.plan)
        text = (
            f"{self.options.steps} steps instead of {before} fit the minutes, at "
            + " and ".join(f"{each:.3g}" for each in pace.plan.costs.steps)
            + " s a step"
        )
        self._write("note", text=text)
        say(f"after step {self.done}: {text}", self.options.quiet)
        progress.resize(self.options.steps)
        self.stream = self._batches()

    def _batches(self) -> Generator[tuple[int, Numbered], None, None]:
        """The batches of the steps that are left, made ahead."""

        def of(step: int) -> Numbered:
            batches = self.source.share(step, self.processes.rank, self.processes.count)
            if self.processes.device.type == "cuda":
                batches = [(number, batch.pinned()) for number, batch in batches]
            return batches

        return prefetched(of, self.done, self.options.steps, self.options.workers)

    def _save(self, name: str | None = None) -> None:
        """Writes a restart point."""
        more: dict[str, Any] = {"loss": self.dev["loss"]} if name == BEST else {}
        if self.pace is not None:
            more["budget"] = self.pace.state()
        state = moments(self.model, self.optimizer, self.processes)
        self.processes.first(
            lambda: save_restart_point(
                self.run,
                self.done,
                self.model,
                state,
                self.source.state(),
                self.options.keep_checkpoints,
                self.companions,
                more,
                name,
                self.processes.count,
            )
        )

    def _tell_of_the_first(self, values: dict[str, tuple[float, float]]) -> None:
        """What the witness says about the first step of all."""
        if self.witness.first_step is None or not self.processes.leads:
            return
        means = {name: total / count for name, (total, count) in values.items()}
        for text in self.witness.first_step(means):
            self._write("note", text=text)
            say(text, self.options.quiet)

    def _show(self) -> None:
        """The model's guesses to the log, and the report."""
        if not self.processes.leads:
            return
        with self.meter.paused(), _evaluating(self.model):
            if self.witness.guesses is not None:
                self._write("guesses", **self.witness.guesses(self.model))
            if self.witness.report is not None:
                self.witness.report()

    def _write(self, kind: str, **values: Any) -> None:
        if self.log is not None:
            self.log.write(kind, self.done, **values)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """The model without dropout and without gradients."""
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train()


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
