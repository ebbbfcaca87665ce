"""The one training loop: an objective, a source of micro-batches, and everything around them.

A step is a list of micro-batches. Each loss is divided by its count over the whole step, so that
how a step is cut into micro-batches changes nothing but the order of sums. The loop clips the
global gradient norm, updates, logs, evaluates, writes restart points, and continues from the
newest one when the run is started again.
"""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bertkit.errors import Interrupted, UserError
from bertkit.model.encoder import set_compute_dtype
from bertkit.progress import Progress, say
from bertkit.training.allocator import keep_memory, release_memory
from bertkit.training.batch import Batch
from bertkit.training.checkpoint import newest_restart_point, restore, save_restart_point
from bertkit.training.config import TrainOptions
from bertkit.training.interrupt import InterruptGuard
from bertkit.training.log import RunLog
from bertkit.training.optimizer import make_optimizer
from bertkit.training.precision import compute_dtype
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
    """Where micro-batches come from. `step` must be a pure function of its argument."""

    @abstractmethod
    def step(self, step: int) -> list[Batch]:
        """The micro-batches of a step, counted from 0."""

    def state(self) -> dict[str, Any]:
        """What spares a restarted run the work of finding its place again; may be empty."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes back what `state` returned."""


Evaluate = Callable[[nn.Module], dict[str, float]]


@dataclass
class TrainResult:
    """How a training ended.

    Attributes:
        seconds: of training, over all parts of an interrupted run.
        resumed_from: the step that this part of the run continued from, 0 for a fresh start.
        dev: the last evaluation.
    """

    steps: int
    seconds: float
    resumed_from: int
    dev: dict[str, float]


def train(
    model: nn.Module,
    objective: Objective,
    source: BatchSource,
    options: TrainOptions,
    run: Path,
    evaluate: Evaluate | None = None,
    companions: Callable[[Path], None] | None = None,
    label: str = "train",
) -> TrainResult:
    """Trains `model` in place, from the newest restart point in `run` if there is one.

    Args:
        evaluate: called between steps as `options.evaluate_steps` says and at the end; its
            numbers go to the log under the kind "dev".
        companions: writes into a restart point what should lie beside the weights.
        label: the name on the progress bar.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM, once a restart point is written.
        UserError: the loss is no longer finite, or a restart point cannot be written or read.
    """
    keep_memory()
    set_compute_dtype(model, compute_dtype(options.precision, next(model.parameters()).device))
    optimizer = make_optimizer(model, options)
    point = newest_restart_point(run)
    first = 0
    if point is not None:
        restore(point, model, optimizer)
        source.restore(point.source)
        first = point.step
        say(f"continuing from step {first} of {options.steps}", options.quiet)
    log = RunLog(run, first)
    meter = Meter(log.newest("seconds"), int(log.newest("tokens")))
    dev: dict[str, float] = {}

    def save(step: int) -> None:
        save_restart_point(
            run, step, model, optimizer, source.state(), options.keep_checkpoints, companions
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
    try:
        with (
            InterruptGuard() as guard,
            Progress(label, options.steps, "steps", options.quiet, done=first) as progress,
        ):
            for step, batches in prefetched(source, first, options.steps, options.workers):
                values = update(model, objective, batches, optimizer, step, options)
                meter.add(values, sum(batch.inputs.tokens for batch in batches))
                done = step + 1
                last = done == options.steps
                stopping = guard.received is not None and not last
                saving = stopping or bool(
                    options.checkpoint_steps and (done % options.checkpoint_steps == 0 or last)
                )
                # A restart point closes a window of the log, so that none is lost or told twice.
                if done % options.log_steps == 0 or last or saving:
                    log.write("train", done, **meter.window())
                progress.advance(1, meter.detail())
                if evaluate is not None and (
                    last or (options.evaluate_steps and done % options.evaluate_steps == 0)
                ):
                    dev = evaluate_now(done)
                if saving:
                    save(done)
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
        log.close()
        optimizer.state.clear()
        release_memory()
    return TrainResult(options.steps, meter.seconds(), first, dev)


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
    `learning_rate`. Raises UserError when the loss or the gradient is not finite; the weights
    are then still those of the step before.
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
    if not torch.isfinite(norm) or total_loss != total_loss:
        raise UserError(
            f"the loss is no longer finite at step {step + 1}; the last restart point is good: "
            "start a run with a lower --learning-rate or more warm-up"
        )
    rate = learning_rate(step, options)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    values = {name: (total, count) for name, (total, count) in logged.items()}
    values["loss"] = (total_loss, 1)
    values["gradient_norm"] = (float(norm), 1)
    values["learning_rate"] = (rate, 1)
    return values


def prefetched(
    source: BatchSource, first: int, steps: int, workers: int
) -> Iterator[tuple[int, list[Batch]]]:
    """Yields (step, micro-batches); with workers, one thread builds the next ones meanwhile."""
    if workers == 0:
        for step in range(first, steps):
            yield step, source.step(step)
        return
    ready: queue.Queue[tuple[int, list[Batch]] | BaseException] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def put(item: tuple[int, list[Batch]] | BaseException) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def build() -> None:
        try:
            for step in range(first, steps):
                if stop.is_set():
                    return
                put((step, source.step(step)))
        except BaseException as error:  # handed over to the training's own thread
            put(error)

    thread = threading.Thread(target=build, name="batches", daemon=True)
    thread.start()
    try:
        for _ in range(first, steps):
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


class Meter:
    """Sums of what the steps report, from one line of the log to the next."""

    def __init__(self, seconds_before: float = 0.0, tokens_before: int = 0) -> None:
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._started = time.monotonic() - seconds_before
        self._window_started = time.monotonic()
        self._window_tokens = 0
        self._tokens = tokens_before
        self._latest: dict[str, float] = {}

    def add(self, values: dict[str, tuple[float, float]], tokens: int) -> None:
        for name, (total, count) in values.items():
            self._sums[name][0] += total
            self._sums[name][1] += count
        self._tokens += tokens
        self._window_tokens += tokens

    def seconds(self) -> float:
        return time.monotonic() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which time does not count as training."""
        began = time.monotonic()
        try:
            yield
        finally:
            away = time.monotonic() - began
            self._started += away
            self._window_started += away

    def window(self) -> dict[str, float]:
        """The means since the last call; seconds and tokens are those of the whole run."""
        elapsed = time.monotonic() - self._window_started
        values = {
            name: total / count for name, (total, count) in sorted(self._sums.items()) if count
        }
        self._latest = values
        values = {
            "seconds": round(self.seconds(), 2),
            "tokens": self._tokens,
            "tokens_per_second": round(self._window_tokens / elapsed, 1) if elapsed else 0.0,
            **{name: float(f"{value:.6g}") for name, value in values.items()},
        }
        self._rate = values["tokens_per_second"]
        self._sums.clear()
        self._window_tokens = 0
        self._window_started = time.monotonic()
        return values

    def detail(self) -> str:
        """The latest means in one short line for the progress bar."""
        shown = [
            f"{name.replace('_', ' ')} {value:.1%}" if "accuracy" in name else f"{name} {value:.3f}"
            for name, value in self._latest.items()
            if name == "loss" or name.endswith("accuracy")
        ]
        if self._latest:
            shown.append(f"{self._rate:,.0f} tokens/s")
        return "  ".join(shown)
