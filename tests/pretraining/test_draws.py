"""Counter-based random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.pretraining import draws

COUNTERS = np.arange(200_000)


def test_a_draw_depends_on_its_key_and_counter_alone() -> None:
    key = draws.key("mask", 7)
    some = np.array([5, 90_000, 3])
    np.testing.assert_array_equal(draws.bits(key, COUNTERS)[some], draws.bits(key, some))
    assert (draws.bits(key, some) != draws.bits(draws.key("mask", 8), some)).all()


def test_draws_are_uniform_and_streams_are_independent() -> None:
    a = draws.uniform(draws.key("a"), COUNTERS)
    b = draws.uniform(draws.key("b"), COUNTERS)
    assert abs(a.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(a))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(len(a))
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 4 / np.sqrt(len(a))
    counts = np.bincount((a * 64).astype(int), minlength=64)
    chi_square = ((counts - len(a) / 64) ** 2 / (len(a) / 64)).sum()
    assert chi_square < 63 + 5 * np.sqrt(2 * 63)


def test_below_reaches_every_value_and_none_beyond() -> None:
    drawn = draws.below(draws.key("below"), COUNTERS, 7)
    counts = np.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert abs(counts / len(drawn) - 1 / 7).max() < 0.005


def test_coin_sums_are_binomial() -> None:
    tosses = np.full(20_000, 150)
    heads = draws.coin_sums(draws.key("coins"), np.arange(20_000) << 10, tosses)
    assert abs(heads.mean() - 75) < 4 * np.sqrt(150 / 4 / 20_000)
    assert abs(heads.var() / (150 / 4) - 1) < 0.05
    few = draws.coin_sums(draws.key("coins"), np.arange(1000) << 10, np.ones(1000, dtype=int))
    assert set(few.tolist()) == {0, 1}


def test_no_tosses_give_no_heads() -> None:
    assert draws.coin_sums(draws.key("c"), np.arange(3), np.zeros(3, dtype=int)).tolist() == [0] * 3


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 1000, 4097])
def test_a_permutation_sends_every_index_to_another_place(size: int) -> None:
    order = draws.permute(draws.key("order", size), np.arange(size), size)
    assert sorted(order.tolist()) == list(range(size))


def test_a_permutation_is_known_piece_by_piece_and_mixes_well() -> None:
    size = 10_000
    key = draws.key("order")
    order = draws.permute(key, np.arange(size), size)
    np.testing.assert_array_equal(order[500:600], draws.permute(key, np.arange(500, 600), size))
    assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.05
    assert (np.diff(order) == 1).sum() < 20
