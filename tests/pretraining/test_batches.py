"""Examples and micro-batches: a pure function of their row."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.pretraining.batches import (
    PretrainingSource,
    SpecialIds,
    build_examples,
    truncated_lengths,
)
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.plan import RANDOM_NEXT, PlanOptions, make_plan
from tests.pretraining.memory_split import MemorySplit, random_documents

CLS, SEP, MASK = 2, 3, 4
MASKS = MaskOptions(mask_id=MASK, vocab_size=100, max_predictions=10)
SPECIAL = SpecialIds(CLS, SEP)


def reference_truncation(a: int, b: int, most: int) -> tuple[int, int]:
    """`truncate_seq_pair` of the reference release, counting only."""
    while a + b > most:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


def test_truncation_leaves_the_references_lengths() -> None:
    for most in (5, 8, 61):
        a, b = (x.ravel() for x in np.meshgrid(np.arange(1, 130), np.arange(1, 130)))
        kept_a, kept_b = truncated_lengths(a, b, most)
        expected = [reference_truncation(*pair, most) for pair in zip(a, b, strict=True)]
        assert list(zip(kept_a.tolist(), kept_b.tolist(), strict=True)) == expected


def built(split: MemorySplit, numbers: list[int], options: PlanOptions, epoch: int = 0):
    plan = make_plan(split.sentence_lengths, split.document_bounds, options, "train", epoch)
    rows = np.array(numbers)
    return plan[rows], build_examples(split, plan, rows, options, MASKS, SPECIAL, epoch)


def test_an_example_reads_cls_a_sep_b_sep(split: MemorySplit) -> None:
    options = PlanOptions(4000)  # nothing is truncated
    rows, examples = built(split, list(range(20)), options)
    ends = np.cumsum(examples.lengths)
    for row, end, length in zip(rows, ends, examples.lengths, strict=True):
        ids = examples.original_ids[end - length : end]
        segments = examples.segment_ids[end - length : end]
        a, _ = split.read(np.array([row["a_start"]]), np.array([row["a_sentences"]]))
        b, _ = split.read(np.array([row["b_start"]]), np.array([row["b_sentences"]]))
        assert ids.tolist() == [CLS, *a.tolist(), SEP, *b.tolist(), SEP]
        assert segments.tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
        assert length == row["length"]
    assert examples.next_sentence.tolist() == (rows["flags"] & RANDOM_NEXT).tolist()


def test_truncation_takes_from_front_and_back() -> None:
    split = MemorySplit([[100, 100], [100, 100]] * 40)
    options = PlanOptions(35, short_probability=0.0)
    rows, examples = built(split, list(range(80)), options)
    assert (examples.lengths == 35).all()
    fronts = []
    starts = np.cumsum(examples.lengths) - examples.lengths
    for row, start in zip(rows, starts, strict=True):
        a, _ = split.read(np.array([row["a_start"]]), np.array([row["a_sentences"]]))
        kept = examples.original_ids[start + 1 : start + 17]
        windows = np.lib.stride_tricks.sliding_window_view(a, 16)
        fronts.append(int(np.flatnonzero((windows == kept).all(axis=1))[0]))
    dropped = 100 - 16
    assert abs(np.mean(fronts) - dropped / 2) < 4 * np.sqrt(dropped / 4 / len(fronts))


def test_a_batch_is_its_rows_one_by_one(split: MemorySplit) -> None:
    options = PlanOptions(64)
    numbers = [5, 0, 17, 9]
    _, together = built(split, numbers, options)
    ends = np.cumsum(together.lengths)
    for k, number in enumerate(numbers):
        _, alone = built(split, [number], options)
        here = slice(ends[k] - together.lengths[k], ends[k])
        np.testing.assert_array_equal(together.token_ids[here], alone.token_ids)
        np.testing.assert_array_equal(together.segment_ids[here], alone.segment_ids)
        masked = together.masked[(together.masked >= here.start) & (together.masked < here.stop)]
        np.testing.assert_array_equal(masked - here.start, alone.masked)


def test_masks_differ_from_epoch_to_epoch(split: MemorySplit) -> None:
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(64), "train", 0)
    rows = np.arange(10)
    first = build_examples(split, plan, rows, PlanOptions(64), MASKS, SPECIAL, 0)
    second = build_examples(split, plan, rows, PlanOptions(64), MASKS, SPECIAL, 1)
    assert first.masked.tolist() != second.masked.tolist()


def source(split: MemorySplit, batch: int = 8, micro: int = 4) -> PretrainingSource:
    return PretrainingSource(split, PlanOptions(64), MASKS, SPECIAL, batch, micro)


def test_an_epoch_shows_every_row_once_in_a_permuted_order(split: MemorySplit) -> None:
    reader = source(split)
    size = len(reader.plan(0))
    parts = [reader.examples(number, 1)[0] for number in range(size)]
    lengths = sorted(int(part.lengths[0]) for part in parts)
    assert lengths == sorted(reader.plan(0)["length"].tolist())
    assert [int(p.lengths[0]) for p in parts] != reader.plan(0)["length"].tolist()
    assert reader.locate(size) == (1, 0)


def test_a_step_can_be_read_at_any_time_and_across_the_end_of_an_epoch(split: MemorySplit) -> None:
    reader = source(split)
    steps = len(reader.plan(0)) // 8 + 2
    forward = [reader.step(step) for step in range(steps)]
    again = source(split)
    again.restore(reader.state())
    for step in (steps - 1, 0, steps - 2):
        for ours, theirs in zip(forward[step], again.step(step), strict=True):
            assert ours.inputs.token_ids.equal(theirs.inputs.token_ids)
            assert ours.targets["masked"].equal(theirs.targets["masked"])
    assert all(b.inputs.sequences == 4 for batches in forward for b in batches)


def test_the_size_of_the_micro_batch_changes_no_example(split: MemorySplit) -> None:
    whole = source(split, 8, 8).step(3)[0]
    parts = source(split, 8, 2).step(3)
    joined = [ids for part in parts for ids in part.inputs.token_ids.tolist()]
    assert whole.inputs.token_ids.tolist() == joined


@pytest.mark.parametrize("length", [8, 9, 16])
def test_tiny_sequence_lengths_are_never_exceeded(length: int) -> None:
    split = MemorySplit(random_documents(30, seed=9))
    reader = PretrainingSource(split, PlanOptions(length), MASKS, SPECIAL, 16, 16)
    for step in range(5):
        batch = reader.step(step)[0]
        assert batch.inputs.max_length <= length
        assert (batch.inputs.lengths >= 5).all()  # a token of A, one of B, three special ones
