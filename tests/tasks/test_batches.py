"""Training order is a pure function of the step; batches for answers keep to their budget."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from bertkit.tasks.batches import TokenSource, TrainingSource, by_budget
from bertkit.tasks.labelling import collate
from bertkit.tasks.task import Features, FeatureSet


def some_features(count: int) -> list[Features]:
    generator = random.Random(0)
    return [
        Features(number, [2, *[number + 5] * length, 3], [0] * (length + 2), [0], [0], [number % 2])
        for number, length in enumerate(generator.choices(range(1, 9), k=count))
    ]


def source_of(
    features: list[Features], batch_size: int, micro_batch_size: int, seed: int
) -> TrainingSource:
    made = FeatureSet(features, [len(one.ids) for one in features])
    return TrainingSource(made, collate, batch_size, micro_batch_size, seed)


def test_a_step_is_the_same_whenever_it_is_asked_for():
    features = some_features(23)
    source = source_of(features, 8, 3, seed=1)
    forward = [source.rows(step) for step in range(12)]
    fresh = source_of(features, 8, 3, seed=1)
    assert [fresh.rows(step) for step in reversed(range(12))] == forward[::-1]
    assert [source.rows(step) for step in range(12)] != [
        source_of(features, 8, 3, seed=2).rows(step) for step in range(12)
    ]


def test_several_threads_get_the_same_steps():
    features = some_features(5)
    alone = source_of(features, 4, 4, seed=0)
    expected = [alone.rows(step) for step in range(400)]
    for _ in range(5):
        source = source_of(features, 4, 4, seed=0)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(source.rows, range(400))) == expected


def test_every_epoch_shows_every_example_once_and_batches_run_across_epochs():
    source = source_of(some_features(10), 4, 4, seed=0)
    stream = [row for step in range(5) for row in source.rows(step)]
    assert sorted(stream[:10]) == sorted(stream[10:]) == list(range(10))
    assert stream[:10] != stream[10:]


def test_fewer_examples_than_a_batch_are_repeated():
    rows = source_of(some_features(3), 8, 8, seed=0).rows(0)
    assert len(rows) == 8
    assert sorted(rows[:3]) == [0, 1, 2]


def by_tokens(features: list[Features], tokens: int, micro: int, seed: int = 0) -> TokenSource:
    made = FeatureSet(features, [len(one.ids) for one in features])
    return TokenSource(made, collate, tokens, micro, seed)


def test_steps_by_tokens_show_every_example_once_an_epoch_and_are_about_as_large():
    features = some_features(101)
    lengths = [len(one.ids) for one in features]
    source = by_tokens(features, 40, 20)
    steps = [source.rows(step) for step in range(3 * sum(lengths) // 40 + 1)]
    stream = [row for rows in steps for row in rows]
    epochs = [stream[first : first + 101] for first in (0, 101, 202)]
    assert all(sorted(epoch) == list(range(101)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    tokens = [sum(lengths[row] for row in rows) for rows in steps]
    assert all(40 - 10 < count < 40 + 10 for count in tokens)


def test_a_step_by_tokens_is_a_pure_function_of_its_number_and_never_empty():
    features = some_features(7)
    longest = max(len(one.ids) for one in features)
    source = by_tokens(features, longest, 5)
    forward = [source.rows(step) for step in range(60)]
    assert all(forward)
    fresh = by_tokens(features, longest, 5)
    assert [fresh.rows(step) for step in reversed(range(60))] == forward[::-1]
    assert [by_tokens(features, longest, 5, seed=1).rows(step) for step in range(60)] != forward


def test_sequences_that_begin_between_two_cuts_make_a_step():
    made = FeatureSet([0, 1, 2, 3], [5, 3, 7, 3])
    source = TokenSource(made, collate, 8, 8, seed=0)
    source._order = lambda epoch: np.arange(4)
    assert [source.rows(step) for step in range(5)] == [[0, 1], [2, 3], [0, 1], [2], [3, 0]]


def test_micro_batches_by_tokens_keep_to_the_budget_with_like_lengths_together():
    features = some_features(60)
    lengths = [len(one.ids) for one in features]
    made = FeatureSet(features, lengths)
    for source in (TrainingSource(made, collate, 30, 30, 0, 24), by_tokens(features, 150, 24)):
        batches = source.step(2)
        of_batches = [batch.inputs.lengths.tolist() for batch in batches]
        assert all(sum(one) <= 24 for one in of_batches)
        flat = [length for one in of_batches for length in one]
        assert flat == sorted(flat, reverse=True)
        assert sorted(flat) == sorted(lengths[row] for row in source.rows(2))


def test_micro_batches_hold_the_steps_examples_with_like_lengths_together():
    source = source_of(some_features(40), 16, 5, seed=0)
    batches = source.step(1)
    assert [batch.inputs.sequences for batch in batches] == [5, 5, 5, 1]
    lengths = torch.cat([batch.inputs.lengths for batch in batches]).tolist()
    assert lengths == sorted(lengths)


def test_asked_positions_count_from_the_start_of_the_batch():
    first = Features(0, [2, 7, 8, 3], [0] * 4, [1, 2], [0, 1], [1, 0])
    second = Features(1, [2, 9, 3], [0] * 3, [1], [0], [2])
    batch = collate([first, second])
    assert batch.inputs.token_ids[batch.targets["asked"]].tolist() == [7, 8, 9]
    assert batch.targets["labels"].tolist() == [1, 0, 2]


def test_groups_keep_to_the_budget_and_lose_nothing():
    generator = random.Random(5)
    lengths = [*generator.choices(range(2, 60), k=200), 500]
    groups = list(by_budget(lengths, 128))
    assert sorted(number for group in groups for number in group) == list(range(201))
    assert groups[0] == [200]
    assert all(sum(lengths[n] for n in group) <= 128 for group in groups[1:])
    assert sum(map(len, groups[1:])) / len(groups[1:]) > 2
