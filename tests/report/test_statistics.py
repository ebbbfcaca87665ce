"""The standard error of a comparison covers other seeds and other test sets."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.report.statistics import (
    Difference,
    accuracy_difference,
    f1_difference,
    f1_scores,
    mean_and_sd,
)

SEEDS, ITEMS, TRIALS = 3, 400, 600


def _accuracies(
    random: np.random.Generator, seed_effect: float, shared: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Two arms of right and wrong answers; both find the same items hard."""
    item = random.normal(0.0, 1.5, ITEMS)
    common = random.normal(0.0, shared, (SEEDS, 1))
    arms = []
    for skill in (0.6, 1.0):
        seed = random.normal(0.0, seed_effect, (SEEDS, 1)) if seed_effect else 0.0
        chance = 1 / (1 + np.exp(-(skill + item + seed + common)))
        arms.append(random.random((SEEDS, ITEMS)) < chance)
    return arms[0], arms[1]


@pytest.mark.parametrize("seed_effect", [0.0, 0.1, 0.4])
def test_the_standard_error_of_accuracies_is_the_spread_over_experiments(
    seed_effect: float,
) -> None:
    random = np.random.default_rng(1)
    results = [accuracy_difference(*_accuracies(random, seed_effect)) for _ in range(TRIALS)]
    spread = np.std([result.difference for result in results])
    claimed = np.sqrt(np.mean([result.standard_error**2 for result in results]))
    assert 0.9 < claimed / spread < 1.15


def test_pairing_takes_away_what_the_seeds_share() -> None:
    random = np.random.default_rng(2)
    arms = [_accuracies(random, 0.1, shared=0.6) for _ in range(TRIALS)]
    paired = [accuracy_difference(*arm, paired_seeds=True) for arm in arms]
    apart = [accuracy_difference(*arm) for arm in arms]
    spread = np.std([result.difference for result in paired])
    claimed = np.sqrt(np.mean([result.standard_error**2 for result in paired]))
    assert 0.9 < claimed / spread < 1.15
    assert np.mean([result.standard_error for result in apart]) > 1.5 * claimed


def test_a_harder_test_set_for_both_arms_adds_no_error() -> None:
    right = np.zeros((SEEDS, ITEMS))
    right[:, : ITEMS // 2] = 1
    better = right.copy()
    better[:, -1] = 1
    result = accuracy_difference(right, better)
    assert result.difference == pytest.approx(1 / ITEMS)
    assert result.standard_error == pytest.approx(1 / ITEMS, rel=0.01)


def _counts(random: np.random.Generator, seed_effect: float) -> tuple[np.ndarray, np.ndarray]:
    """Entities of 300 sentences: some have many, and both arms miss the same ones more often."""
    gold = random.poisson(1.5, 300)
    hard = random.normal(0.0, 1.0, 300)
    arms = []
    for skill in (0.3, 0.8):
        seed = random.normal(0.0, seed_effect, (SEEDS, 1)) if seed_effect else np.zeros((SEEDS, 1))
        chance = 1 / (1 + np.exp(-(skill + hard + seed)))
        found = random.binomial(np.broadcast_to(gold, chance.shape), chance)
        wrong = random.poisson(0.4 * (1 - chance))
        arms.append(np.stack([found, wrong, gold - found], axis=-1))
    return arms[0], arms[1]


@pytest.mark.parametrize("seed_effect", [0.0, 0.3])
def test_the_standard_error_of_f1_is_the_spread_over_experiments(seed_effect: float) -> None:
    random = np.random.default_rng(3)
    results = [f1_difference(*_counts(random, seed_effect), replicates=100) for _ in range(150)]
    spread = np.std([result.difference for result in results])
    claimed = np.sqrt(np.mean([result.standard_error**2 for result in results]))
    assert 0.82 < claimed / spread < 1.22


def test_f1_is_of_the_summed_counts_and_zero_for_nothing() -> None:
    assert f1_scores([[3, 1, 0], [1, 0, 2]]) == pytest.approx(2 * 4 / (2 * 4 + 1 + 2))
    assert f1_scores(np.zeros((2, 5, 3))).tolist() == [0.0, 0.0]


def test_the_bootstrap_has_a_fixed_seed() -> None:
    arms = _counts(np.random.default_rng(4), 0.3)
    assert f1_difference(*arms) == f1_difference(*arms)


def test_one_seed_still_has_the_error_of_the_test_set() -> None:
    first, second = _accuracies(np.random.default_rng(5), 0.0)
    result = accuracy_difference(first[:1], second[:1])
    assert 0.01 < result.standard_error < 0.06


def test_arms_on_different_items_are_refused() -> None:
    with pytest.raises(ValueError, match="same items"):
        accuracy_difference(np.ones((3, 10)), np.ones((3, 11)))
    with pytest.raises(ValueError, match="paired"):
        accuracy_difference(np.ones((2, 10)), np.ones((3, 10)), paired_seeds=True)


def test_mean_sd_and_units_of_standard_errors() -> None:
    assert mean_and_sd([0.5, 0.7]) == pytest.approx((0.6, 0.1414), abs=1e-4)
    assert mean_and_sd([0.5]) == (0.5, 0.0)
    assert Difference(0.1, 0.02).in_standard_errors == pytest.approx(5)
    assert Difference(-0.1, 0.0).in_standard_errors == -np.inf
    assert Difference(0.0, 0.0).in_standard_errors == 0.0
