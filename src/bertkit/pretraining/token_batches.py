"""Batches by tokens: every step sees about as many, however short the pairs are.

The permuted order of an epoch is cut into windows. Inside a window the rows are sorted by planned
length and cut into micro-batches of like lengths, so that attention pads little; the pieces are
shuffled by key. A step takes the next few pieces.

    window of 8 rows, lengths    9 3 4 9 2 9 3 9
    sorted, cut at even tokens   2 3 3 4 | 9 9 | 9 9     three pieces of 12, 18, 18 tokens
    shuffled                     9 9 | 2 3 3 4 | 9 9

How many pieces a window has follows from the epoch's mean length and the window's rows alone. So
the place of a step is a few integers worked out from its number: epoch, window, piece.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bertkit.corpus.format import CorpusSplit
from bertkit.pretraining import draws
from bertkit.pretraining.batches import PretrainingSource, SpecialIds, one_at_a_time, to_batch
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.plan import PlanOptions
from bertkit.training.batch import Batch

WINDOW_PIECES = 64
"""A full window is cut into about so many micro-batches."""


class EpochSize(NamedTuple):
    """What an epoch is cut by: its rows, and their planned tokens together."""

    rows: int
    tokens: int


class Place(NamedTuple):
    """Where a piece stands; `piece` counts in the shuffled order of its window."""

    epoch: int
    window: int
    piece: int


class TokenBatchSource(PretrainingSource):
    """Micro-batches of about as many tokens each.

    Args:
        batch_tokens: tokens of a step.
        micro_batch_tokens: tokens of a micro-batch, at most about.
    """

    def __init__(
        self,
        split: CorpusSplit,
        options: PlanOptions,
        masks: MaskOptions | None,
        special: SpecialIds,
        batch_tokens: int,
        micro_batch_tokens: int,
    ) -> None:
        super().__init__(split, options, masks, special, 1, 1)
        self.pieces_in_step = max(1, -(-batch_tokens // micro_batch_tokens))
        self.piece_tokens = batch_tokens / self.pieces_in_step
        self._epochs: list[EpochSize] = []

    @one_at_a_time
    def epoch_size(self, epoch: int) -> EpochSize:
        """Rows and planned tokens of an epoch."""
        while epoch >= len(self._epochs):
            plan = self.plan(len(self._epochs))
            self._epochs.append(EpochSize(len(plan), int(plan["length"].sum(dtype=np.int64))))
        return self._epochs[epoch]

    def window_rows(self, size: EpochSize) -> int:
        """Rows of a full window."""
        return max(1, round(WINDOW_PIECES * self.piece_tokens * size.rows / size.tokens))

    def pieces(self, size: EpochSize, rows: int) -> int:
        """Pieces of a window of so many rows: what its tokens fill on average, rounded up."""
        filled = -(-rows * size.tokens // round(size.rows * self.piece_tokens))
        return int(min(rows, max(1, filled)))

    def pieces_in_epoch(self, size: EpochSize) -> int:
        width = self.window_rows(size)
        full, rest = divmod(size.rows, width)
        return full * self.pieces(size, width) + (self.pieces(size, rest) if rest else 0)

    def place(self, number: int) -> Place:
        """Where the run's piece `number` (from 0) stands."""
        epoch = 0
        while number >= (here := self.pieces_in_epoch(self.epoch_size(epoch))):
            number -= here
            epoch += 1
        size = self.epoch_size(epoch)
        return Place(epoch, *divmod(number, self.pieces(size, self.window_rows(size))))

    def rows(self, place: Place) -> np.ndarray:
        """Rows of the epoch's plan that a piece holds, shorter ones first."""
        size, plan = self.epoch_size(place.epoch), self.plan(place.epoch)
        seed, length = self.options.seed, self.options.sequence_length
        width = self.window_rows(size)
        first = place.window * width
        rows = super().ordered(place.epoch, first, min(width, size.rows - first))
        rows = rows[np.argsort(plan["length"][rows], kind="stable")]
        count = self.pieces(size, len(rows))
        key = draws.key("pieces", seed, length, place.epoch, place.window)
        piece = int(draws.permute(key, np.array([place.piece]), count)[0])
        ends = np.cumsum(plan["length"][rows], dtype=np.int64)
        # A cut stands where the tokens before it are nearest to its share; no piece is empty.
        cuts = np.searchsorted(ends - plan["length"][rows] / 2, ends[-1] * np.arange(count) / count)
        cuts = np.maximum.accumulate(np.maximum(cuts - np.arange(count), 0)) + np.arange(count)
        cuts = np.append(np.minimum(cuts, len(rows) - count + np.arange(count)), len(rows))
        return rows[cuts[piece] : cuts[piece + 1]]

    def ordered(self, epoch: int, place: int, count: int) -> np.ndarray:
        """Rows in the order in which the pieces hold them."""
        size = self.epoch_size(epoch)
        width = self.window_rows(size)
        found = []
        for window in range(place // width, (place + count - 1) // width + 1):
            pieces = self.pieces(size, min(width, size.rows - window * width))
            found += [self.rows(Place(epoch, window, piece)) for piece in range(pieces)]
        skipped = place - place // width * width
        return np.concatenate(found)[skipped : skipped + count]

    @property
    def micro_batches(self) -> int:
        return self.pieces_in_step

    def batch(self, step: int, number: int) -> Batch:
        place = self.place(step * self.pieces_in_step + number)
        return to_batch(self.build(place.epoch, self.rows(place)))

    def state(self) -> dict[str, Any]:
        """Sizes of the epochs so far, which spares a restart from planning them again."""
        return {"epochs": [list(size) for size in self._epochs]}

    def restore(self, state: dict[str, Any]) -> None:
        self._epochs = [EpochSize(*size) for size in state["epochs"]]
