"""From rows of the plan to micro-batches: read, truncate, lay out, mask.

An example is a pure function of its row: `batch(rows)[k]` equals `batch(rows[k:k+1])[0]`, so any
number of workers builds the same batches and a run restarts from a step number.

    [CLS] a a a [SEP] b b [SEP]
      0   0 0 0   0   1 1   1     segment ids

One text lies in segment 0, with a [SEP] at its end and at each border of documents inside. For the
left-to-right language model nothing is masked, and each token but [CLS] is to be predicted.
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
    choose_words,
    mask_tokens,
    position_counters,
)
from bertkit.pretraining.plan import ONE_TEXT, PlanOptions, make_plan
from bertkit.pretraining.words import word_starts
from bertkit.training.batch import Batch
from bertkit.training.objective import BatchSource

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
        next_sentence: [examples] 0 when B follows A, 1 when it is random or comes before A.
        ahead: how many tokens before its own a token is predicted: 1 left to right, else 0.
    """

    token_ids: np.ndarray
    original_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray
    next_sentence: np.ndarray
    ahead: int = 0


def truncated_lengths(a: np.ndarray, b: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of A and B after the reference's truncation to `most` tokens together.

    The reference pops from the longer list until both fit, from B when they are equally long; so
    the shorter one stays whole if it takes at most half, and else both end at half (A gets the
    odd token).
    """
    kept_a = np.minimum(a, np.maximum(most - b, most - most // 2))
    return kept_a, np.minimum(b, most - kept_a)


def build_examples(
    split: CorpusSplit,
    plan: np.ndarray,
    numbers: np.ndarray,
    options: PlanOptions,
    masks: MaskOptions | None,
    special: SpecialIds,
    epoch: int,
) -> Examples:
    """The examples of the plan's rows `numbers`, masked as in `epoch`; without `masks` unmasked,
    for a model that predicts each token from those before it."""
    epoch = options.content_epoch(epoch)
    rows = plan[numbers]
    if options.pairs in ONE_TEXT:
        first, count, owner = _runs_of_texts(rows, split.document_bounds)
        ids, lengths = split.read(first, count)
        kept = np.minimum(lengths, options.longest)  # a sentence alone may be longer
        text_number = 2 * numbers[owner]
    else:
        first, count = _runs_of_pairs(rows)
        ids, lengths = split.read(first, count)  # A of row 0, B of row 0, A of row 1, ...
        kept = np.stack(
            truncated_lengths(lengths[0::2], lengths[1::2], options.longest), axis=1
        ).ravel()
        owner = np.repeat(np.arange(len(rows)), 2)
        text_number = np.stack([2 * numbers, 2 * numbers + 1], axis=1).ravel()

    def stream(name: str) -> np.uint64:
        return draws.key("mask", options.seed, split.name, epoch, options.sequence_length, name)

    # Each token that truncation pops goes from the front or the back with probability 1/2.
    skipped = draws.coin_sums(stream("truncation"), text_number << 10, lengths - kept)
    text_start = np.cumsum(lengths) - lengths + skipped
    blocks = kept + 1  # a text and its [SEP]
    out_start = np.cumsum(blocks) - blocks + owner + 1  # a [CLS] before the texts of each row
    total = 1 + np.bincount(owner, weights=blocks, minlength=len(rows)).astype(np.int64)
    within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
    source = np.repeat(text_start, kept) + within
    destination = np.repeat(out_start, kept) + within

    original = np.empty(int(total.sum()), dtype=np.int64)
    original[destination] = ids[source]
    maskable = np.zeros(len(original), dtype=bool)
    maskable[destination] = ~np.isin(ids[source], (special.cls_id, special.sep_id))
    original[np.cumsum(total) - total] = special.cls_id
    original[out_start + kept] = special.sep_id
    segment_ids = np.zeros(len(original), dtype=np.int64)
    if options.pairs not in ONE_TEXT:
        b_start, b_block = out_start[1::2], blocks[1::2]
        inside = np.arange(int(b_block.sum())) - np.repeat(np.cumsum(b_block) - b_block, b_block)
        segment_ids[np.repeat(b_start, b_block) + inside] = 1
    label = (rows["flags"] != 0).astype(np.int64)
    if masks is None:
        predicted = np.ones(len(original), dtype=bool)
        predicted[np.cumsum(total) - total] = False
        places = np.flatnonzero(predicted)
        return Examples(original, original, segment_ids, total, places, label, ahead=1)

    heads = None
    if masks.units == "token":
        masked = choose_positions(stream("choice"), numbers, total, maskable, masks)
    else:
        starts = np.zeros(len(original), dtype=bool)
        starts[destination] = word_starts(split, first, count, ids, masks.continues)[source]
        starts[out_start] = True  # truncation may have cut a word
        masked, heads = choose_words(stream("choice"), numbers, total, maskable, starts, masks)
    counters = position_counters(numbers, total)
    seen = mask_tokens(stream("fate"), original, masked, counters, masks, heads)
    return Examples(seen, original, segment_ids, total, masked, label)


def _runs_of_pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First sentence and number of sentences of A and B of each row, one after the other."""
    first = np.stack([rows["a_start"], rows["b_start"]], axis=1).astype(np.int64).ravel()
    count = np.stack([rows["a_sentences"], rows["b_sentences"]], axis=1).astype(np.int64).ravel()
    return first, count


def _runs_of_texts(
    rows: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First sentence, number of sentences and row of each document's part of the texts."""
    start = rows["a_start"].astype(np.int64)
    stop = start + rows["a_sentences"]
    document = np.searchsorted(bounds, start, side="right") - 1
    parts = np.searchsorted(bounds, stop, side="left") - document
    owner = np.repeat(np.arange(len(rows)), parts)
    of_part = document[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    first = np.maximum(start[owner], bounds[of_part])
    return first, np.minimum(stop[owner], bounds[of_part + 1]) - first, owner


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the tokens that every example carries."""

    cls_id: int
    sep_id: int


def to_batch(examples: Examples) -> Batch:
    """A micro-batch for the model and the objective; `masked` is where to predict from."""
    return Batch(
        inputs=FlatBatch.from_arrays(examples.token_ids, examples.segment_ids, examples.lengths),
        targets={
            "masked": torch.from_numpy(examples.masked - examples.ahead),
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
        masks: MaskOptions | None,
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
        """The rows of an epoch; the two plans that were asked for last are kept."""
        epoch = self.options.content_epoch(epoch)
        plan = self._plans.pop(epoch, None)
        if plan is None:
            if len(self._plans) > 1:
                self._plans.pop(next(iter(self._plans)))
            plan = make_plan(
                self.split.sentence_lengths,
                self.split.document_bounds,
                self.options,
                self.split.name,
                epoch,
            )
        self._plans[epoch] = plan  # at the end, as the newest
        return plan

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
            here = min(count, len(self.plan(epoch)) - place)
            parts.append(self.build(epoch, self.ordered(epoch, place, here)))
            number, count = number + here, count - here
        return parts

    def ordered(self, epoch: int, place: int, count: int) -> np.ndarray:
        """Rows of an epoch's plan at the places `place` to `place + count` of its order."""
        return draws.permute(
            draws.key("order", self.options.seed, self.options.sequence_length, epoch),
            np.arange(place, place + count),
            len(self.plan(epoch)),
        )

    def build(self, epoch: int, rows: np.ndarray) -> Examples:
        """The examples of the rows of an epoch's plan."""
        return build_examples(
            self.split, self.plan(epoch), rows, self.options, self.masks, self.special, epoch
        )

    @property
    def micro_batches(self) -> int:
        """How many a step has."""
        return -(-self.batch_size // self.micro_batch_size)

    def batch(self, step: int, number: int) -> Batch:
        """Micro-batch `number` of a step."""
        first = step * self.batch_size + number * self.micro_batch_size
        count = min(self.micro_batch_size, (step + 1) * self.batch_size - first)
        return to_batch(_joined(self.examples(first, count)))

    def step(self, step: int) -> list[Batch]:
        return [batch for _, batch in self.share(step, 0, 1)]

    def share(self, step: int, rank: int, count: int) -> list[tuple[int, Batch]]:
        numbers = range(rank, self.micro_batches, count)
        return [(number, self.batch(step, number)) for number in numbers]

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
        ahead=parts[0].ahead,
    )
