"""The plan against a plain, sequential restatement of the reference's walk (B2)."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.errors import UserError
from bertkit.pretraining import draws
from bertkit.pretraining.plan import (
    RANDOM_NEXT,
    WALK_SENTENCES,
    PlanOptions,
    make_plan,
)
from tests.pretraining.memory_split import MemorySplit, random_documents


def sequential_walk(
    documents: list[list[int]], options: PlanOptions, split: str, epoch: int
) -> list[tuple[int, int, int, int, int, int]]:
    """The reference's loop over one document after another, fed with the plan's draws."""

    def stream(name: str) -> np.uint64:
        return draws.key("plan", options.seed, split, epoch, options.sequence_length, name)

    def below(name: str, counter: int, bound: int) -> int:
        return int(draws.below(stream(name), np.array([counter]), bound)[0])

    longest = options.sequence_length - 3
    starts = np.concatenate([[0], np.cumsum([len(d) for d in documents])]).tolist()
    rows = []
    for number, document in enumerate(documents):
        for walk in range(0, len(document), WALK_SENTENCES):
            sentences = document[walk : walk + WALK_SENTENCES]
            first = starts[number] + walk
            target = longest
            if draws.uniform(stream("short"), np.array([first]))[0] < options.short_probability:
                target = 2 + below("target", first, longest - 1)
            chunk: list[int] = []
            tokens = 0
            i = 0
            while i < len(sentences):
                chunk.append(sentences[i])
                tokens += sentences[i]
                if i == len(sentences) - 1 or tokens >= target:
                    start = first + i + 1 - len(chunk)
                    a_end = 1
                    if len(chunk) >= 2:
                        a_end = 1 + below("a", start, len(chunk) - 1)
                    a_tokens = sum(chunk[:a_end])
                    heads = int(draws.bits(stream("next"), np.array([start]))[0]) & 1
                    if len(chunk) == 1 or heads:
                        other = below("document", start, len(documents) - 1)
                        other += other >= number
                        begin = below("sentence", start, len(documents[other]))
                        b_tokens = 0
                        for b_sentences, length in enumerate(documents[other][begin:], 1):  # noqa: B007
                            b_tokens += length
                            if b_tokens >= target - a_tokens:
                                break
                        b_start, flags = starts[other] + begin, RANDOM_NEXT
                        i -= len(chunk) - a_end
                    else:
                        b_start, flags = start + a_end, 0
                        b_sentences = len(chunk) - a_end
                        b_tokens = sum(chunk[a_end:])
                    length = min(a_tokens + b_tokens, longest) + 3
                    rows.append((start, b_start, a_end, b_sentences, length, flags))
                    chunk, tokens = [], 0
                i += 1
    return rows


@pytest.mark.parametrize("sequence_length", [16, 64, 128])
def test_plan_and_sequential_walk_agree_row_for_row(sequence_length: int) -> None:
    documents = [*random_documents(300, seed=3), [5] * 4500, [700, 1, 900], [1]]
    split = MemorySplit(documents)
    options = PlanOptions(sequence_length, seed=11)
    plan = make_plan(split.sentence_lengths, split.document_bounds, options, "train", 2)
    assert [tuple(row) for row in plan.tolist()] == sequential_walk(documents, options, "train", 2)


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
