"""From rows of the plan to micro-batches: read, truncate, lay out, mask.

An example is a pure function of its row: `batch(rows)[k]` equals `batch(rows[k:k+1])[0]`, so any
number of workers builds the same batches and a run restarts from a step number.

    [CLS] a a a [SEP] b b [SEP]
      0   0 0 0   0   1 1   1     segment ids
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from bertkit.corpus.format import CorpusSplit
from bertkit.model.batch import FlatBatch
from bertkit.pretraining import draws
from bertkit.pretraining.masking import (
    MaskOptions,
    choose_positions,
    mask_tokens,
    position_counters,
)
from bertkit.pretraining.plan import RANDOM_NEXT, SPECIAL_TOKENS, PlanOptions, make_plan
from bertkit.training.batch import Batch
from bertkit.training.loop import BatchSource

T = TypeVar("T")


@dataclass
class Examples:
    """Pre-training examples laid end to end.

    Attributes:
        token_ids: [tokens] what the model sees.
        original_ids: [tokens] before masking.
        segment_ids: [tokens].
        lengths: [examples].
        masked: [masked] indices of the tokens to predict.
        next_sentence: [examples] 0 when B follows A, 1 when it is random.
    """

    token_ids: np.ndarray
    original_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray
    next_sentence: np.ndarray


def truncated_lengths(a: np.ndarray, b: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of A and B after the reference's truncation to `most` tokens together.

    The reference pops from the longer list until both fit, from B when they are equally long; so
    the shorter one stays whole if it takes at most half, and else both end at half (A gets the
    odd token).
    """
    half_b = most // 2
    half_a = most - half_b
    kept_a = np.where(b <= half_b, most - b, np.where(a <= half_a, a, half_a))
    fits = a + b <= most
    return np.where(fits, a, kept_a), np.where(fits, b, most - kept_a)


def build_examples(
    split: CorpusSplit,
    plan: np.ndarray,
    numbers: np.ndarray,
    options: PlanOptions,
    masks: MaskOptions,
    special: SpecialIds,
    epoch: int,
) -> Examples:
    """The examples of the plan's rows `numbers`, masked as in `epoch`."""
    rows = plan[numbers]
    first = np.stack([rows["a_start"], rows["b_start"]], axis=1).astype(np.int64).ravel()
    count = np.stack([rows["a_sentences"], rows["b_sentences"]], axis=1).astype(np.int64).ravel()
    ids, lengths = split.read(first, count)  # A of row 0, B of row 0, A of row 1, ...
    a, b = lengths[0::2], lengths[1::2]
    kept_a, kept_b = truncated_lengths(a, b, options.sequence_length - SPECIAL_TOKENS)
    kept = np.stack([kept_a, kept_b], axis=1).ravel()

    def stream(name: str) -> np.uint64:
        return draws.key("mask", options.seed, split.name, epoch, options.sequence_length, name)

    # Each token that truncation pops goes from the front or the back with probability 1/2.
    text_number = np.stack([2 * numbers, 2 * numbers + 1], axis=1).ravel()
    skipped = draws.coin_sums(stream("truncation"), text_number << 10, lengths - kept)
    text_start = np.cumsum(lengths) - lengths + skipped
    total = kept_a + kept_b + SPECIAL_TOKENS
    row_start = np.cumsum(total) - total
    out_start = np.stack([row_start + 1, row_start + kept_a + 2], axis=1).ravel()
    within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
    source = np.repeat(text_start, kept) + within
    destination = np.repeat(out_start, kept) + within

    original = np.empty(int(total.sum()), dtype=np.int64)
    original[destination] = ids[source]
    maskable = np.zeros(len(original), dtype=bool)
    maskable[destination] = True
    original[row_start] = special.cls_id
    original[row_start + kept_a + 1] = special.sep_id
    original[row_start + total - 1] = special.sep_id
    segment_ids = np.zeros(len(original), dtype=np.int64)
    place = np.arange(len(original)) - np.repeat(row_start, total)
    segment_ids[place > np.repeat(kept_a + 1, total)] = 1

    masked = choose_positions(stream("choice"), numbers, total, maskable, masks)
    seen = mask_tokens(stream("fate"), original, masked, position_counters(numbers, total), masks)
    return Examples(
        token_ids=seen,
        original_ids=original,
        segment_ids=segment_ids,
        lengths=total,
        masked=masked,
        next_sentence=((rows["flags"] & RANDOM_NEXT) != 0).astype(np.int64),
    )


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the tokens that every example carries."""

    cls_id: int
    sep_id: int


def to_batch(examples: Examples) -> Batch:
    """A micro-batch for the model and the objective."""
    return Batch(
        inputs=FlatBatch.from_arrays(examples.token_ids, examples.segment_ids, examples.lengths),
        targets={
            "masked": torch.from_numpy(examples.masked),
            "masked_ids": torch.from_numpy(examples.original_ids[examples.masked]),
            "next_sentence": torch.from_numpy(examples.next_sentence),
        },
    )


def one_at_a_time(method: Callable[..., T]) -> Callable[..., T]:
    """Lets one loader thread at a time into a method that keeps what it works out."""

    @functools.wraps(method)
    def locked(self: PretrainingSource, *arguments: Any) -> T:
        with self.lock:
            return method(self, *arguments)

    return locked


class PretrainingSource(BatchSource):
    """The micro-batches of a pre-training run, epoch after epoch, each in a permuted order."""

    def __init__(
        self,
        split: CorpusSplit,
        options: PlanOptions,
        masks: MaskOptions,
        special: SpecialIds,
        batch_size: int,
        micro_batch_size: int,
    ) -> None:
        self.split, self.options, self.masks, self.special = split, options, masks, special
        self.batch_size, self.micro_batch_size = batch_size, micro_batch_size
        self.lock = threading.RLock()
        self._epoch_sizes: list[int] = []
        self._plans: dict[int, np.ndarray] = {}

    @one_at_a_time
    def plan(self, epoch: int) -> np.ndarray:
        """The rows of an epoch; the last two plans are kept."""
        if epoch not in self._plans:
            if len(self._plans) > 1:
                self._plans.pop(min(self._plans))
            self._plans[epoch] = make_plan(
                self.split.sentence_lengths,
                self.split.document_bounds,
                self.options,
                self.split.name,
                epoch,
            )
        return self._plans[epoch]

    @one_at_a_time
    def locate(self, number: int) -> tuple[int, int]:
        """The epoch, and the place in its order, of the run's example `number` (from 0)."""
        epoch = 0
        while True:
            if epoch == len(self._epoch_sizes):
                self._epoch_sizes.append(len(self.plan(epoch)))
            if number < self._epoch_sizes[epoch]:
                return epoch, number
            number -= self._epoch_sizes[epoch]
            epoch += 1

    def examples(self, number: int, count: int) -> list[Examples]:
        """The run's examples `number` to `number + count`: a part for each epoch they lie in."""
        parts = []
        while count:
            epoch, place = self.locate(number)
            plan = self.plan(epoch)
            here = min(count, len(plan) - place)
            order = draws.permute(
                draws.key("order", self.options.seed, self.options.sequence_length, epoch),
                np.arange(place, place + here),
                len(plan),
            )
            parts.append(self.build(epoch, order))
            number, count = number + here, count - here
        return parts

    def build(self, epoch: int, rows: np.ndarray) -> Examples:
        """The examples of the rows of an epoch's plan."""
        return build_examples(
            self.split, self.plan(epoch), rows, self.options, self.masks, self.special, epoch
        )

    def step(self, step: int) -> list[Batch]:
        batches = []
        end = (step + 1) * self.batch_size
        for number in range(step * self.batch_size, end, self.micro_batch_size):
            parts = self.examples(number, min(self.micro_batch_size, end - number))
            batches.append(to_batch(_joined(parts)))
        return batches

    def state(self) -> dict[str, Any]:
        """Sizes of the epochs so far, which spares a restart from planning them again."""
        return {"epoch_sizes": self._epoch_sizes}

    def restore(self, state: dict[str, Any]) -> None:
        self._epoch_sizes = list(state["epoch_sizes"])


def _joined(parts: list[Examples]) -> Examples:
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0] + [len(part.token_ids) for part in parts[:-1]])
    return Examples(
        token_ids=np.concatenate([p.token_ids for p in parts]),
        original_ids=np.concatenate([p.original_ids for p in parts]),
        segment_ids=np.concatenate([p.segment_ids for p in parts]),
        lengths=np.concatenate([p.lengths for p in parts]),
        masked=np.concatenate([p.masked + s for p, s in zip(parts, shifts, strict=True)]),
        next_sentence=np.concatenate([p.next_sentence for p in parts]),
    )
