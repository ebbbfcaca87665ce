"""What a training is made of: an objective and a source of micro-batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from bertkit.training.batch import Batch


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

    `step` and `share` must be pure functions of their arguments that several threads may call at
    once.
    """

    @abstractmethod
    def step(self, step: int) -> list[Batch]:
        """The micro-batches of a step, counted from 0."""

    def share(self, step: int, rank: int, count: int) -> list[tuple[int, Batch]]:
        """The part of process `rank` of `count`: numbers rank, rank + count, ... of the step's
        micro-batches, and the micro-batches. A source that need not build the others may say so
        by an implementation of its own."""
        return [pair for pair in enumerate(self.step(step)) if pair[0] % count == rank]

    def state(self) -> dict[str, Any]:
        """What spares a restarted run the work of finding its place again; may be empty."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes back what `state` returned."""

    def set_ends(self, ends: Sequence[int]) -> None:
        """Takes the steps at which the phases of a run with a budget end; they may change."""


Evaluate = Callable[[nn.Module], dict[str, float]]
"""Scores a model between steps, under names for the log; with many processes all of them call it,
and all get the same numbers."""
