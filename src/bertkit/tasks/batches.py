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
from bertkit.training.objective import BatchSource
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
        micro_batch_tokens: tokens computed at once, instead.
    """

    def __init__(
        self,
        made: FeatureSet,
        collate: Callable[[Sequence[Any]], Batch],
        batch_size: int,
        micro_batch_size: int,
        seed: int,
        micro_batch_tokens: int | None = None,
    ) -> None:
        self._features = made.features
        self._lengths = made.lengths
        self._collate = collate
        self._batch_size = batch_size
        self._micro_batch_size = min(micro_batch_size, batch_size)
        self._micro_batch_tokens = micro_batch_tokens
        self._seed = seed
        self._orders: dict[int, np.ndarray] = {}

    def rows(self, step: int) -> list[int]:
        """Numbers of the units of a step, a pure function of the step."""
        first = step * self._batch_size
        places = range(first, first + self._batch_size)
        return [int(self._order(p // len(self._features))[p % len(self._features)]) for p in places]

    def step(self, step: int) -> list[Batch]:
        rows = sorted(self.rows(step), key=lambda row: self._lengths[row])
        if self._micro_batch_tokens is None:
            size = self._micro_batch_size
            parts = [rows[first : first + size] for first in range(0, len(rows), size)]
        else:
            groups = by_budget([self._lengths[row] for row in rows], self._micro_batch_tokens)
            parts = [[rows[number] for number in group] for group in groups]
        return [self._collate([self._features[row] for row in part]) for part in parts]

    def _order(self, epoch: int) -> np.ndarray:
        order = self._orders.get(epoch)
        if order is None:
            generator = np.random.default_rng(derived_seed("order", self._seed, epoch))
            order = generator.permutation(len(self._features))
            # a batch looks at two epochs at most, unless there are fewer examples than one batch;
            # the dictionary is replaced whole, for several threads may ask at once
            before = {e: o for e, o in self._orders.items() if e == epoch - 1}
            self._orders = before | {epoch: order}
        return order


class TokenSource(TrainingSource):
    """The same stream of examples, cut into steps of about as many tokens each.

    Laid end to end, the sequences of the stream are cut at every multiple of `batch_tokens`; a
    step has those that begin between two cuts. So its place follows from its number.

        sequences   aaaaabbbcccccccdddeeeeee    batch_tokens 8
        cuts        |       |       |
        steps       a b     c d     e ...

    Args:
        batch_tokens: tokens a step, at least those of the longest sequence, so that no step is
            empty.
        micro_batch_tokens: tokens computed at once, of sequences of like length.
    """

    def __init__(
        self,
        made: FeatureSet,
        collate: Callable[[Sequence[Any]], Batch],
        batch_tokens: int,
        micro_batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(made, collate, 1, 1, seed, micro_batch_tokens)
        self._batch_tokens = batch_tokens
        self._tokens = np.asarray(made.lengths, dtype=np.int64)
        self._in_epoch = int(self._tokens.sum())

    def rows(self, step: int) -> list[int]:
        first, end = step * self._batch_tokens, (step + 1) * self._batch_tokens
        found: list[int] = []
        for epoch in range(first // self._in_epoch, (end - 1) // self._in_epoch + 1):
            order = self._order(epoch)
            lengths = self._tokens[order]
            begins = epoch * self._in_epoch + np.cumsum(lengths) - lengths
            found += order[slice(*np.searchsorted(begins, [first, end]))].tolist()
        return found


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
