"""Masking: 15 %, of which 80/10/10, and never a special token."""

from __future__ import annotations

import numpy as np

from bertkit.pretraining import draws
from bertkit.pretraining.masking import (
    MaskOptions,
    choose_positions,
    default_max_predictions,
    mask_tokens,
    position_counters,
)

KEY = draws.key("test")
MASKS = MaskOptions(mask_id=4, vocab_size=1000, max_predictions=20)


def batch(lengths: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, lengths and which tokens may be masked: all but the first and last of a sequence."""
    size = np.array(lengths)
    maskable = np.ones(size.sum(), dtype=bool)
    ends = np.cumsum(size)
    maskable[ends - 1] = maskable[ends - size] = False
    return np.arange(len(lengths)) + 100, size, maskable


def test_the_budget_is_the_references() -> None:
    lengths = [128, 100, 50, 13, 3, 10]
    rows, size, maskable = batch(lengths)
    chosen = choose_positions(KEY, rows, size, maskable, MASKS)
    owner = np.searchsorted(np.cumsum(size), chosen, side="right")
    counts = np.bincount(owner, minlength=len(lengths)).tolist()
    assert counts == [min(20, max(1, round(n * 0.15))) for n in lengths]
    capped = MaskOptions(mask_id=4, vocab_size=1000, max_predictions=7)
    assert len(choose_positions(KEY, rows[:1], size[:1], maskable[:128], capped)) == 7


def test_a_special_token_is_never_chosen_even_when_the_budget_is_larger_than_the_text() -> None:
    rows, size, maskable = batch([3] * 200 + [60] * 50)
    greedy = MaskOptions(mask_id=4, vocab_size=1000, max_predictions=60, rate=1.0)
    chosen = choose_positions(KEY, rows, size, maskable, greedy)
    assert maskable[chosen].all()
    assert len(chosen) == maskable.sum()


def test_every_token_is_as_likely_to_be_chosen() -> None:
    rows, size, maskable = batch([22] * 20_000)
    chosen = choose_positions(KEY, rows, size, maskable, MASKS)
    place = np.bincount(chosen % 22, minlength=22)[1:-1] / 20_000
    expected = round(22 * 0.15) / 20
    assert abs(place - expected).max() < 5 * np.sqrt(expected * (1 - expected) / 20_000)


def test_eighty_ten_ten() -> None:
    count = 200_000
    ids = np.full(count, 77)
    positions = np.arange(count)
    seen = mask_tokens(
        KEY, ids, positions, position_counters(np.array([0]), np.array([count])), MASKS
    )
    assert abs((seen == 4).mean() - (0.8 + 0.1 / 1000)) < 0.005
    assert abs((seen == 77).mean() - (0.1 + 0.1 / 1000)) < 0.004
    random = seen[(seen != 4) & (seen != 77)]
    assert abs(len(random) / count - 0.1) < 0.004
    # The whole vocabulary, special tokens included (reference release).
    assert random.min() == 0
    assert random.max() == 999


def test_tokens_that_are_not_chosen_stay_and_are_not_counted() -> None:
    rows, size, maskable = batch([128] * 8)
    ids = np.random.default_rng(0).integers(5, 1000, size.sum())
    chosen = choose_positions(KEY, rows, size, maskable, MASKS)
    seen = mask_tokens(KEY, ids, chosen, position_counters(rows, size), MASKS)
    others = np.setdiff1d(np.arange(size.sum()), chosen)
    np.testing.assert_array_equal(seen[others], ids[others])


def test_most_predictions_follow_the_references_rule() -> None:
    assert default_max_predictions(128, 0.15) == 20
    assert default_max_predictions(512, 0.15) == 77
