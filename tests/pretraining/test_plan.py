"""The plan against a plain, sequential restatement of the reference's walk (B2)."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.errors import UserError
from bertkit.pretraining.config import Pairs
from bertkit.pretraining.plan import (
    RANDOM_NEXT,
    SWAPPED,
    WALK_SENTENCES,
    PlanOptions,
    describe,
    make_plan,
)
from tests.pretraining.memory_split import MemorySplit, random_documents
from tests.pretraining.reference import (
    RATES,
    fed_walk,
    free_walk,
    natural_documents,
    planned,
    rate_and_error,
)


def of_any_length(
    count: int, seed: int, most_sentences: int = 5000, most_tokens: int = 3000
) -> list[list[int]]:
    """Documents of 1 to 5,000 sentences of 0 to 3,000 tokens, all orders of magnitude as likely.

    A corpus has no sentence without tokens, but a plan is made from lengths alone and must not
    care."""
    generator = np.random.default_rng(seed)
    sizes = np.exp(generator.random(count) ** 2 * np.log(most_sentences)).astype(int)
    sizes[:4] = 1, 2, WALK_SENTENCES + 1, most_sentences
    documents = []
    for size in sizes:
        scale = generator.random() * np.log(most_tokens + 1)
        lengths = np.exp(generator.random(size) * scale).astype(int) - (generator.random() < 0.3)
        documents.append(lengths.tolist())
    documents[3][:2] = 0, most_tokens
    return documents


def agree(documents: list[list[int]], options: PlanOptions, epoch: int = 2) -> int:
    split = MemorySplit([])
    lengths = np.array([n for d in documents for n in d], dtype=np.uint32)
    bounds = np.concatenate([[0], np.cumsum([len(d) for d in documents])])
    plan = make_plan(lengths, bounds, options, split.name, epoch)
    expected = np.fromiter(fed_walk(documents, options, split.name, epoch), dtype=plan.dtype)
    if options.pairs == "sop":  # ordered by where the chunk starts, not A
        both = np.stack([plan["a_start"], plan["b_start"]])
        assert (np.diff(both.min(axis=0).astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(plan, expected)
    return len(plan)


@pytest.mark.parametrize("sequence_length", [16, 64, 128])
def test_plan_and_sequential_walk_agree_row_for_row(sequence_length: int) -> None:
    documents = [*random_documents(300, seed=3), [5] * 4500, [700, 1, 900], [1]]
    agree(documents, PlanOptions(sequence_length, seed=11))
    agree(of_any_length(60, seed=1), PlanOptions(sequence_length, seed=2))


@pytest.mark.slow
def test_plan_and_sequential_walk_agree_on_ten_thousand_documents() -> None:
    rows = agree(of_any_length(10_000, seed=5), PlanOptions(128, seed=4), epoch=0)
    assert rows > 500_000


@pytest.mark.parametrize("pairs", ["nsp-sentence", "sop"])
def test_the_variants_agree_with_their_sequential_walk(pairs: Pairs) -> None:
    documents = [*random_documents(300, seed=3), [5] * 4500, [700, 1, 900], [1], [3] * 2001]
    for sequence_length in (16, 128):
        agree(documents, PlanOptions(sequence_length, seed=11, pairs=pairs))
        agree(of_any_length(60, seed=1), PlanOptions(sequence_length, seed=2, pairs=pairs))


@pytest.mark.parametrize("sequence_length", [64, 128])
def test_rates_are_the_references(sequence_length: int) -> None:
    documents = natural_documents(2500, seed=sequence_length)
    theirs, their_error = rate_and_error(free_walk(documents, sequence_length, 0.1, seed=1))
    ours, our_error = rate_and_error(planned(documents, PlanOptions(sequence_length)))
    scores = (ours - theirs) / np.hypot(their_error, our_error)
    assert (np.abs(scores) < 4).all(), dict(zip(RATES, scores, strict=True))
    assert ours[RATES.index("random next")] > 0.5
    assert abs(ours[RATES.index("dropped tokens from the front")] - 0.5) < 0.02


def test_the_comparison_of_rates_can_fail() -> None:
    documents = natural_documents(2500, seed=1)
    theirs, their_error = rate_and_error(free_walk(documents, 128, 0.1, seed=1))
    ours, our_error = rate_and_error(planned(documents, PlanOptions(128, short_probability=0.3)))
    scores = (ours - theirs) / np.hypot(their_error, our_error)
    assert abs(scores[RATES.index("shorter than the sequence")]) > 6


def test_every_sentence_starts_or_is_in_an_a_or_a_true_b() -> None:
    split = MemorySplit(random_documents(50, seed=4))
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(64), "train", 0)
    seen = np.zeros(len(split.sentence_lengths), dtype=bool)
    for row in plan:
        seen[row["a_start"] : row["a_start"] + row["a_sentences"]] = True
        if not row["flags"] & RANDOM_NEXT:
            seen[row["b_start"] : row["b_start"] + row["b_sentences"]] = True
    assert seen.all()


def test_a_random_next_never_comes_from_the_own_document() -> None:
    split = MemorySplit(random_documents(5, seed=5, most_sentences=200))
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(64), "train", 0)
    document = np.searchsorted(split.document_bounds, plan["a_start"], side="right")
    of_b = np.searchsorted(split.document_bounds, plan["b_start"], side="right")
    random = (plan["flags"] & RANDOM_NEXT) != 0
    assert (document[random] != of_b[random]).all()
    assert (document[~random] == of_b[~random]).all()
    ends = plan["b_start"].astype(int) + plan["b_sentences"]
    assert (ends <= split.document_bounds[of_b]).all()


def test_more_than_half_of_the_pairs_are_random_as_in_the_reference() -> None:
    split = MemorySplit(random_documents(2000, seed=6))
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(128), "train", 0)
    assert 0.50 < ((plan["flags"] & RANDOM_NEXT) != 0).mean() < 0.60


def test_a_tenth_of_the_walks_is_short() -> None:
    documents = [[10] * 30 for _ in range(4000)]
    split = MemorySplit(documents)
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(103), "train", 0)
    first = plan[np.isin(plan["a_start"], split.document_bounds) & (plan["flags"] == 0)]
    assert 0.07 < (first["length"] < 103).mean() < 0.12


def test_no_example_is_longer_than_the_sequence() -> None:
    split = MemorySplit(random_documents(100, seed=7, most_tokens=900))
    plan = make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(32), "train", 0)
    assert plan["length"].max() == 32


def test_the_plan_is_the_same_each_time_and_another_in_each_epoch() -> None:
    split = MemorySplit(random_documents(50, seed=8))
    arguments = (split.sentence_lengths, split.document_bounds, PlanOptions(64), "train")
    np.testing.assert_array_equal(make_plan(*arguments, 3), make_plan(*arguments, 3))
    assert make_plan(*arguments, 3).tolist() != make_plan(*arguments, 4).tolist()


def test_one_document_has_no_random_next() -> None:
    split = MemorySplit([[5, 6, 7]])
    with pytest.raises(UserError, match=r"1 document\(s\).*another one"):
        make_plan(split.sentence_lengths, split.document_bounds, PlanOptions(64), "train", 0)


def plan_of(split: MemorySplit, options: PlanOptions, epoch: int = 0) -> np.ndarray:
    return make_plan(split.sentence_lengths, split.document_bounds, options, "train", epoch)


@pytest.mark.parametrize("pairs", ["nsp", "nsp-sentence"])
def test_one_document_has_no_random_next_of_any_kind(pairs: Pairs) -> None:
    with pytest.raises(UserError, match=r"1 document\(s\).*--objective mlm"):
        plan_of(MemorySplit([[5, 6, 7]]), PlanOptions(64, pairs=pairs))


@pytest.mark.parametrize("pairs", ["sop", "full-sentences", "doc-sentences"])
def test_what_needs_no_random_next_works_with_one_document(pairs: Pairs) -> None:
    assert len(plan_of(MemorySplit([[5, 6, 7] * 50]), PlanOptions(64, pairs=pairs))) > 5


def test_sentence_order_needs_a_document_of_two_sentences() -> None:
    with pytest.raises(UserError, match=r"no document.*has two sentences"):
        plan_of(MemorySplit([[5], [6]]), PlanOptions(64, pairs="sop"))


def test_half_of_the_sentence_orders_are_swapped_and_none_leaves_its_document() -> None:
    split = MemorySplit(random_documents(1000, seed=2))
    plan = plan_of(split, PlanOptions(64, pairs="sop"))
    swapped = plan["flags"] == SWAPPED
    assert abs(swapped.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(plan))
    ends = [plan[f"{x}_start"].astype(int) + plan[f"{x}_sentences"] for x in "ab"]
    assert (plan["b_start"] == ends[0])[~swapped].all()
    assert (plan["a_start"] == ends[1])[swapped].all()
    document = [np.searchsorted(split.document_bounds, plan[f"{x}_start"], "right") for x in "ab"]
    assert (document[0] == document[1]).all()
    assert plan["a_sentences"].min() == plan["b_sentences"].min() == 1
    assert "swapped" in describe(plan, PlanOptions(64, pairs="sop"))


def test_single_sentences_pair_with_the_next_one_or_a_random_one() -> None:
    split = MemorySplit(random_documents(500, seed=2))
    plan = plan_of(split, PlanOptions(64, pairs="nsp-sentence"))
    assert set(plan["a_sentences"]) == set(plan["b_sentences"]) == {1}
    random = plan["flags"] == RANDOM_NEXT
    assert (plan["b_start"][~random] == plan["a_start"][~random] + 1).all()
    document = [np.searchsorted(split.document_bounds, plan[f"{x}_start"], "right") for x in "ab"]
    assert (document[0] != document[1])[random].all()
    assert (document[0] == document[1])[~random].all()
    assert 0.5 < random.mean() < 0.6


@pytest.mark.parametrize("pairs", ["full-sentences", "doc-sentences"])
@pytest.mark.parametrize("most_tokens", [20, 200])
def test_one_text_takes_every_sentence_once_and_as_many_as_fit(
    pairs: Pairs, most_tokens: int
) -> None:
    split = MemorySplit(
        [*random_documents(300, seed=2, most_tokens=most_tokens), [3] * (2 * WALK_SENTENCES)]
    )
    length = 64
    plan = plan_of(split, PlanOptions(length, short_probability=0.0, pairs=pairs))
    start = plan["a_start"].astype(int)
    stop = start + plan["a_sentences"]
    np.testing.assert_array_equal(start[1:], stop[:-1])
    assert start[0] == 0 and stop[-1] == len(split.sentence_lengths)
    document = np.searchsorted(split.document_bounds, np.arange(stop[-1] + 1), "right") - 1
    borders = document[stop - 1] - document[start]
    tokens = split.starts[stop] - split.starts[start] + borders + 2
    assert (tokens[plan["a_sentences"] > 1] <= length).all()
    np.testing.assert_array_equal(plan["length"], np.minimum(tokens, length))
    if pairs == "doc-sentences":
        assert not borders.any()
    else:
        assert borders.any()
    # What came next did not fit, but for the ends of documents and of walks.
    after = np.minimum(stop, len(split.sentence_lengths) - 1)
    room = tokens + split.sentence_lengths[after] + (document[after] != document[stop - 1])
    at_end = np.isin(stop, split.document_bounds) if pairs == "doc-sentences" else stop == stop[-1]
    assert (room <= length)[~at_end].sum() <= 4


def test_walks_across_documents_begin_elsewhere_in_each_epoch() -> None:
    split = MemorySplit([[7] * 9000])
    options = PlanOptions(64, short_probability=0.0, pairs="full-sentences")
    assert plan_of(split, options, 0).tolist() != plan_of(split, options, 1).tolist()


def test_static_plans_repeat_and_dynamic_ones_do_not() -> None:
    split = MemorySplit(random_documents(50, seed=8))
    static = PlanOptions(64, duplicates=3)
    assert plan_of(split, static, 1).tolist() == plan_of(split, static, 4).tolist()
    assert plan_of(split, static, 1).tolist() == plan_of(split, PlanOptions(64), 1).tolist()
    assert plan_of(split, static, 1).tolist() != plan_of(split, static, 2).tolist()
