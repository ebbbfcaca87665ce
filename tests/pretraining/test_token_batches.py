"""Batches by tokens: every row once, even steps, like lengths together, found by number."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.pretraining.batches import SpecialIds
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.plan import PlanOptions
from bertkit.pretraining.token_batches import EpochSize, Place, TokenBatchSource
from tests.pretraining.memory_split import MemorySplit, random_documents

MASKS = MaskOptions(mask_id=4, vocab_size=100, max_predictions=10)
SPECIAL = SpecialIds(2, 3)


def source(
    documents: int = 400, batch_tokens: int = 2048, micro: int = 512, short: float = 0.5
) -> TokenBatchSource:
    split = MemorySplit(random_documents(documents, seed=3))
    options = PlanOptions(64, short_probability=short)
    return TokenBatchSource(split, options, MASKS, SPECIAL, batch_tokens, micro)  # type: ignore[arg-type]


@pytest.mark.parametrize("documents", [5, 60, 400])
def test_an_epoch_holds_every_row_once(documents: int) -> None:
    reader = source(documents)
    size = reader.epoch_size(0)
    pieces = reader.pieces_in_epoch(size)
    rows = [reader.rows(reader.place(number)) for number in range(pieces)]
    assert all(len(part) for part in rows)
    assert sorted(np.concatenate(rows).tolist()) == list(range(size.rows))
    assert reader.place(pieces) == Place(1, 0, 0)


def test_the_order_of_an_epoch_is_that_in_which_its_steps_hold_the_rows() -> None:
    reader = source()
    size = reader.epoch_size(0)
    held = [reader.rows(reader.place(number)) for number in range(reader.pieces_in_epoch(size))]
    rows = np.concatenate(held)
    for place, count in ((0, size.rows), (17, 1), (size.rows - 1, 1), (200, 300)):
        assert reader.ordered(0, place, count).tolist() == rows[place : place + count].tolist()


def test_steps_have_as_many_tokens_as_asked_for() -> None:
    reader = source()
    tokens = [sum(b.inputs.tokens for b in reader.step(step)) for step in range(20)]
    assert abs(np.mean(tokens) / 2048 - 1) < 0.05
    assert max(tokens) < 1.15 * 2048
    assert all(len(reader.step(step)) == 4 for step in range(3))
    pieces = [b.inputs.tokens for step in range(20) for b in reader.step(step)]
    assert max(pieces) < 1.15 * 512 + 64


def test_a_micro_batch_holds_like_lengths_and_pieces_come_in_no_order() -> None:
    reader = source()
    batches = [b for step in range(16) for b in reader.step(step)]
    padded = sum(b.inputs.sequences * b.inputs.max_length for b in batches)
    assert padded < 1.05 * sum(b.inputs.tokens for b in batches)
    longest = [b.inputs.max_length for b in batches]
    assert longest != sorted(longest)
    assert len({b.inputs.sequences for b in batches}) > 3


def test_a_step_can_be_read_at_any_time_and_after_a_restart() -> None:
    reader = source(60)
    steps = 3 * reader.pieces_in_epoch(reader.epoch_size(0)) // 4
    forward = [reader.step(step) for step in range(steps)]
    assert reader.place(4 * steps - 1).epoch >= 1
    again = source(60)
    again.restore(reader.state())
    for step in (steps - 1, 0, steps // 2):
        for ours, theirs in zip(forward[step], again.step(step), strict=True):
            assert ours.inputs.token_ids.equal(theirs.inputs.token_ids)
            assert ours.targets["masked"].equal(theirs.targets["masked"])


def test_pieces_follow_from_the_epochs_size_alone() -> None:
    reader = source()
    for rows in (1, 7, 500, 10_000):
        size = EpochSize(rows, rows * 50)
        pieces = reader.pieces_in_epoch(size)
        assert max(1, rows * 50 / 512) <= pieces <= rows * 50 / 512 + rows / 600 + 2
