"""Examples and micro-batches: a pure function of their row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bertkit.pretraining import batches as module
from bertkit.pretraining.batches import (
    Examples,
    PretrainingSource,
    SpecialIds,
    build_examples,
    to_batch,
    truncated_lengths,
)
from bertkit.pretraining.config import MaskUnits, Pairs
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


def built(
    split: MemorySplit,
    numbers: list[int],
    options: PlanOptions,
    epoch: int = 0,
    masks: MaskOptions | None = MASKS,
) -> tuple[np.ndarray, Examples]:
    plan = make_plan(split.sentence_lengths, split.document_bounds, options, "train", epoch)
    rows = np.array(numbers)
    return plan[rows], build_examples(split, plan, rows, options, masks, SPECIAL, epoch)


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


KINDS: list[Pairs] = ["nsp", "nsp-sentence", "sop", "full-sentences", "doc-sentences"]
GOES_ON = np.arange(100) % 3 == 0  # a third of the vocabulary goes on with a word
UNITS: list[MaskUnits] = ["token", "word", "span"]


@pytest.mark.parametrize("pairs", KINDS)
@pytest.mark.parametrize("units", [*UNITS, None])
def test_a_batch_is_its_rows_one_by_one(
    split: MemorySplit, pairs: Pairs, units: MaskUnits | None
) -> None:
    options = PlanOptions(64, pairs=pairs)
    masks = replace(MASKS, units=units, continues=GOES_ON) if units else None
    numbers = [5, 0, 17, 9]
    _, together = built(split, numbers, options, masks=masks)
    ends = np.cumsum(together.lengths)
    for k, number in enumerate(numbers):
        _, alone = built(split, [number], options, masks=masks)
        here = slice(ends[k] - together.lengths[k], ends[k])
        np.testing.assert_array_equal(together.token_ids[here], alone.token_ids)
        np.testing.assert_array_equal(together.segment_ids[here], alone.segment_ids)
        masked = together.masked[(together.masked >= here.start) & (together.masked < here.stop)]
        np.testing.assert_array_equal(masked - here.start, alone.masked)
        assert together.next_sentence[k] == alone.next_sentence[0]


@pytest.mark.parametrize("pairs", KINDS)
@pytest.mark.parametrize("units", UNITS)
def test_no_special_token_is_ever_masked(
    split: MemorySplit, pairs: Pairs, units: MaskUnits
) -> None:
    masks = replace(MASKS, units=units, continues=GOES_ON, max_predictions=64, rate=0.9)
    options = PlanOptions(64, pairs=pairs)
    rows, examples = built(split, list(range(100)), options, masks=masks)
    assert (examples.original_ids[examples.masked] >= 5).all()
    special = np.isin(examples.original_ids, (CLS, SEP))
    np.testing.assert_array_equal(examples.token_ids[special], examples.original_ids[special])
    np.testing.assert_array_equal(examples.lengths, rows["length"])
    owner = np.searchsorted(np.cumsum(examples.lengths), examples.masked, side="right")
    assert (np.bincount(owner, minlength=100) >= 1).all()


def test_separators_that_stand_in_the_text_are_not_masked_either(split: MemorySplit) -> None:
    split.ids = np.where(np.arange(len(split.ids)) % 5 == 0, CLS, split.ids)
    split.ids = np.where(np.arange(len(split.ids)) % 7 == 0, SEP, split.ids)
    for units in UNITS:
        masks = replace(MASKS, units=units, continues=GOES_ON, max_predictions=64, rate=0.9)
        _, examples = built(split, list(range(100)), PlanOptions(64), masks=masks)
        inside = np.isin(examples.original_ids, (CLS, SEP)).sum() - 3 * 100
        assert inside > 500  # the text has them
        assert (examples.original_ids[examples.masked] >= 5).all()


def test_a_text_has_a_separator_at_its_end_and_between_documents(split: MemorySplit) -> None:
    options = PlanOptions(128, pairs="full-sentences")
    rows, examples = built(split, list(range(20)), options)
    ends = np.cumsum(examples.lengths)
    crossed = 0
    for row, end, length in zip(rows, ends, examples.lengths, strict=True):
        expected, document = [CLS], None
        for sentence in range(row["a_start"], row["a_start"] + row["a_sentences"]):
            before, document = (
                document,
                np.searchsorted(split.document_bounds, sentence, side="right"),
            )
            if before is not None and before != document:
                expected.append(SEP)
                crossed += 1
            expected += split.read(np.array([sentence]), np.array([1]))[0].tolist()
        assert examples.original_ids[end - length : end].tolist() == [*expected, SEP]
    assert crossed > 0
    assert not examples.segment_ids.any() and not examples.next_sentence.any()


def test_a_swapped_pair_shows_the_later_text_first() -> None:
    split = MemorySplit([[10] * 20 for _ in range(50)])
    split.ids = np.arange(split.tokens, dtype=np.int32) + 5
    _, examples = built(split, list(range(60)), PlanOptions(43, pairs="sop"))
    starts = np.cumsum(examples.lengths) - examples.lengths
    first = examples.original_ids[starts + 1]
    last = examples.original_ids[starts + examples.lengths - 2]
    np.testing.assert_array_equal(examples.next_sentence == 1, first > last)
    assert 0.2 < examples.next_sentence.mean() < 0.8


def test_left_to_right_predicts_every_next_token(split: MemorySplit) -> None:
    _, examples = built(split, [3, 4], PlanOptions(64, pairs="full-sentences"), masks=None)
    batch = to_batch(examples)
    np.testing.assert_array_equal(examples.token_ids, examples.original_ids)
    ids, ends = examples.token_ids.tolist(), np.cumsum(examples.lengths).tolist()
    asked = [place for place in range(len(ids)) if place + 1 not in ends]
    assert batch.targets["masked"].tolist() == asked
    assert batch.targets["masked_ids"].tolist() == [ids[place + 1] for place in asked]


@pytest.mark.parametrize("bits", [False, True])
def test_whole_words_are_the_corpus_own_where_it_knows_them(bits: bool) -> None:
    split = MemorySplit(random_documents(30, seed=3))
    if bits:
        split.words = np.arange(split.tokens) % 2 == 0  # pairs of tokens
        split.ids = np.arange(split.tokens, dtype=np.int32) + 5
    masks = replace(MASKS, units="word", continues=GOES_ON)
    _, examples = built(split, list(range(40)), PlanOptions(64), masks=masks)
    chosen = np.zeros(len(examples.token_ids), dtype=bool)
    chosen[examples.masked] = True
    ids = examples.original_ids
    inside = (ids >= 5) & (ids - 5 < split.tokens)
    goes_on = inside & (((ids - 5) % 2 == 1) if bits else GOES_ON[ids % 100])
    text = ~np.isin(ids, (CLS, SEP)) if not bits else np.ones(len(ids), dtype=bool)
    if bits:
        text[np.cumsum(examples.lengths) - examples.lengths] = False
    joined = np.flatnonzero(goes_on[1:] & (ids[:-1] >= 5) & text[:-1]) + 1
    together = chosen[joined] == chosen[joined - 1]
    assert together.mean() > 0.99  # a budget of one token may cut a word
    assert chosen[joined].any()


def test_masks_of_static_epochs_repeat_and_their_order_does_not(split: MemorySplit) -> None:
    options = PlanOptions(64, duplicates=2)
    reader = PretrainingSource(split, options, MASKS, SPECIAL, 8, 8)
    sizes = [len(reader.plan(epoch)) for epoch in range(4)]
    starts = np.concatenate([[0], np.cumsum(sizes)])

    def epoch(number: int) -> list[bytes]:
        whole = reader.examples(int(starts[number]), sizes[number])[0]
        bounds = np.cumsum(whole.lengths)[:-1]
        return [part.tobytes() for part in np.split(whole.token_ids, bounds)]

    epochs = [epoch(number) for number in range(4)]
    assert sorted(epochs[0]) == sorted(epochs[2]) and sorted(epochs[1]) == sorted(epochs[3])
    assert epochs[0] != epochs[2]
    assert sorted(epochs[0]) != sorted(epochs[1])


def test_plans_are_not_made_again_where_two_epochs_meet(
    split: MemorySplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(*arguments: Any) -> np.ndarray:
        made.append(arguments[-1])
        return make_plan(*arguments)

    monkeypatch.setattr(module, "make_plan", counted)
    reader = PretrainingSource(split, PlanOptions(64, duplicates=3), MASKS, SPECIAL, 8, 8)
    for epoch in (0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4):
        reader.plan(epoch)
    assert made == [0, 1, 2, 0, 1]


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
