"""Units in, micro-batches out: for training by step, for answers by a budget of tokens.

Batches lie flat, without padding, so sequences of any lengths go together; they are sorted by
length only because attention works on sequences of like length at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bertkit.model.batch import FlatBatch
from bertkit.tasks.task import Features, FeatureSet
from bertkit.training.batch import Batch
from bertkit.training.loop import BatchSource
from bertkit.training.seeds import derived_seed


def flat_inputs(sequences: Sequence[Features]) -> FlatBatch:
    """The encoder's input of sequences that have `ids` and `segments`."""
    return FlatBatch.from_sequences([s.ids for s in sequences], [s.segments for s in sequences])


class TrainingSource(BatchSource):
    """The examples in a seeded order, without end: each epoch a new permutation, then the next.

    As in the reference release, batches are cut from this endless stream, so a batch may hold the
    last examples of one epoch and the first of the next; only the stream's tail beyond the last
    whole batch is never seen.

    Args:
        made: what to train on.
        collate: units -> micro-batch.
        batch_size: units a step.
        micro_batch_size: units computed at once; inside a step like lengths go together.
    """

    def __init__(
        self,
        made: FeatureSet,
        collate: Callable[[Sequence[Any]], Batch],
        batch_size: int,
        micro_batch_size: int,
        seed: int,
    ) -> None:
        self._features = made.features
        self._lengths = made.lengths
        self._collate = collate
        self._batch_size = batch_size
        self._micro_batch_size = min(micro_batch_size, batch_size)
        self._seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def rows(self, step: int) -> list[int]:
        """Numbers of the units of a step, a pure function of the step."""
        first = step * self._batch_size
        places = range(first, first + self._batch_size)
        return [int(self._order(p // len(self._features))[p % len(self._features)]) for p in places]

    def step(self, step: int) -> list[Batch]:
        rows = sorted(self.rows(step), key=lambda row: self._lengths[row])
        size = self._micro_batch_size
        parts = [rows[first : first + size] for first in range(0, len(rows), size)]
        return [self._collate([self._features[row] for row in part]) for part in parts]

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            generator = np.random.default_rng(derived_seed("order", self._seed, epoch))
            # a batch looks at two epochs at most, unless there are fewer examples than one batch
            self._orders = {e: o for e, o in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = generator.permutation(len(self._features))
        return self._orders[epoch]


def by_budget(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Groups numbers of sequences so that each group has at most `budget` tokens.

    The longest come first, so that a lack of memory shows at once; a sequence beyond the budget
    makes a group of its own.
    """
    group: list[int] = []
    tokens = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if group and tokens + lengths[number] > budget:
            yield group
            group, tokens = [], 0
        group.append(number)
        tokens += lengths[number]
    if group:
        yield group
