"""Masking: 15 %, of which 80/10/10, and never a special token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertkit.errors import UserError
from bertkit.pretraining import draws
from bertkit.pretraining.masking import (
    SPAN_P,
    SPAN_WORDS,
    SPLITS,
    MaskOptions,
    choose_positions,
    choose_words,
    default_max_predictions,
    mask_tokens,
    position_counters,
    read_split,
    span_words,
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


WORDS = replace(MASKS, units="word")
SPANS = replace(MASKS, units="span")


def words_batch(
    count: int, seed: int = 0, most: int = 128, longest: int = 6
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, lengths, maskable, starts of random pairs of texts with words of 1 to 6 pieces."""
    generator = np.random.default_rng(seed)
    lengths, maskable, starts = [], [], []
    for _ in range(count):
        length = int(generator.integers(5, most + 1))
        middle = int(generator.integers(2, length - 2))
        may = np.ones(length, dtype=bool)
        may[[0, middle, -1]] = False
        start = np.zeros(length, dtype=bool)
        start[np.cumsum(generator.integers(1, longest + 1, length)) % length] = True
        start[[1, middle + 1]] = True
        lengths.append(length)
        maskable.append(may)
        starts.append(start & may)
    return (
        np.arange(count) * 7,
        np.array(lengths),
        np.concatenate(maskable),
        np.concatenate(starts),
    )


def budgets(lengths: np.ndarray, options: MaskOptions) -> np.ndarray:
    wanted = [max(1, round(int(n) * options.rate)) for n in lengths]
    return np.minimum(wanted, options.max_predictions)


def per_sequence(chosen: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    owner = np.searchsorted(np.cumsum(lengths), chosen, side="right")
    return np.bincount(owner, minlength=len(lengths))


@pytest.mark.parametrize("options", [WORDS, SPANS, replace(SPANS, max_predictions=7)])
def test_words_stay_whole_within_the_budget_and_off_special_tokens(options: MaskOptions) -> None:
    rows, lengths, maskable, starts = words_batch(3000)
    chosen, _ = choose_words(KEY, rows, lengths, maskable, starts, options)
    assert (np.diff(chosen) > 0).all()
    assert maskable[chosen].all()
    counts = per_sequence(chosen, lengths)
    assert (counts >= 1).all()
    assert (counts <= budgets(lengths, options)).all()
    # Every word is chosen as a whole or not at all, but for the lonely token of a sequence whose
    # words are all longer than its budget.
    word = np.where(maskable, np.cumsum(starts) - 1, -1)
    size = np.bincount(word[maskable])
    taken = np.bincount(word[chosen], minlength=len(size))
    cut = (taken > 0) & (taken < size)
    first = np.flatnonzero(starts)
    of_cut = np.searchsorted(np.cumsum(lengths), first[cut], side="right")
    shortest = np.full(len(lengths), 10**6)
    np.minimum.at(shortest, np.searchsorted(np.cumsum(lengths), first, side="right"), size)
    assert (counts[of_cut] == 1).all()
    assert (shortest[of_cut] > budgets(lengths, options)[of_cut]).all()
    assert cut.sum() < 0.05 * len(lengths)


@pytest.mark.parametrize("options", [WORDS, SPANS])
def test_words_and_spans_fill_the_budget(options: MaskOptions) -> None:
    rows, lengths, maskable, starts = words_batch(2000)
    chosen, _ = choose_words(KEY, rows, lengths, maskable, starts, options)
    share = len(chosen) / budgets(lengths, options).sum()
    assert 0.97 < share <= 1
    # Where words are single tokens nothing is left over.
    chosen, _ = choose_words(KEY, rows, lengths, maskable, maskable, options)
    possible = np.minimum(budgets(lengths, options), lengths - 3)
    np.testing.assert_array_equal(per_sequence(chosen, lengths), possible)


def greedy_words(order: list[list[int]], budget: int) -> set[int]:
    """The reference's loop over the words in random order (whole word masking)."""
    chosen: set[int] = set()
    for word in order:
        if len(chosen) >= budget:
            break
        if len(chosen) + len(word) > budget:
            continue
        chosen |= set(word)
    return chosen


def test_whole_words_are_those_of_the_references_loop() -> None:
    rows, lengths, maskable, starts = words_batch(300, seed=3)
    chosen, heads = choose_words(KEY, rows, lengths, maskable, starts, WORDS)
    np.testing.assert_array_equal(chosen, heads)
    counters = position_counters(rows, lengths)
    ends = np.cumsum(lengths)
    for end, length, budget in zip(ends, lengths, budgets(lengths, WORDS), strict=True):
        words: list[list[int]] = []
        for place in range(end - length, end):
            if starts[place]:
                words.append([place])
            elif maskable[place]:
                words[-1].append(place)
        score = draws.bits(KEY, counters[[word[0] for word in words]])
        order = [words[number] for number in np.argsort(score)]
        expected = greedy_words(order, budget)
        mine = {int(place) for place in chosen if end - length <= place < end}
        assert mine == expected or (not expected and len(mine) == 1)


def test_a_word_is_chosen_alike_in_any_batch() -> None:
    rows, lengths, maskable, starts = words_batch(40)
    ends = np.cumsum(lengths)
    for options in (WORDS, SPANS):
        chosen, heads = choose_words(KEY, rows, lengths, maskable, starts, options)
        for k in (0, 17, 39):
            here = slice(ends[k] - lengths[k], ends[k])
            alone, alone_heads = choose_words(
                KEY, rows[k : k + 1], lengths[k : k + 1], maskable[here], starts[here], options
            )
            inside = (chosen >= here.start) & (chosen < here.stop)
            np.testing.assert_array_equal(chosen[inside] - here.start, alone)
            np.testing.assert_array_equal(heads[inside] - here.start, alone_heads)


def test_span_lengths_are_geometric_among_one_to_ten() -> None:
    lengths = span_words(draws.key("span"), np.arange(200_000))
    weights = (1 - SPAN_P) ** np.arange(SPAN_WORDS)
    expected = weights / weights.sum()
    shares = np.bincount(lengths, minlength=SPAN_WORDS + 1)[1:] / len(lengths)
    assert len(shares) == SPAN_WORDS
    assert np.abs(shares - expected).max() < 5 * np.sqrt(0.25 / len(lengths))
    assert abs(lengths.mean() - 3.8) < 0.03  # SpanBERT, section 3.1


def test_a_span_shares_one_fate_and_stays_in_its_text() -> None:
    rows, lengths, maskable, _ = words_batch(4000, seed=5)
    chosen, heads = choose_words(KEY, rows, lengths, maskable, maskable, SPANS)
    text = np.cumsum(~maskable)
    assert (text[chosen] == text[heads]).all()
    assert (chosen >= heads).all() and (chosen - heads < SPAN_WORDS).all()
    sizes = np.unique(heads, return_counts=True)[1]
    assert 2.2 < sizes.mean() < 3.8  # shorter where the budget or the text ends
    ids = np.full(int(lengths.sum()), 77)
    fate_key = draws.key("fate")  # not that of the choice
    seen = mask_tokens(fate_key, ids, chosen, position_counters(rows, lengths), SPANS, heads)
    masked = seen[chosen] == 4
    for fate in (masked, seen[chosen] == 77):
        share = np.bincount(heads, weights=fate)[np.unique(heads)] / sizes
        assert np.isin(share, (0, 1)).mean() > 0.99  # a random token may be any, 77 and 4 too
    assert abs(masked.mean() - 0.8) < 0.02


@pytest.mark.parametrize("name", SPLITS)
def test_the_mixes_of_table_8_by_name(name: str) -> None:
    mask, same, random = (int(part) / 100 for part in SPLITS[name].split("/"))
    mask_share, random_share = read_split(name)
    assert (mask_share, random_share) == read_split(SPLITS[name])
    options = replace(MASKS, mask_share=mask_share, random_share=random_share)
    count = 100_000
    counters = position_counters(np.array([0]), np.array([count]))
    seen = mask_tokens(KEY, np.full(count, 77), np.arange(count), counters, options)
    assert abs((seen == 4).mean() - mask) < 0.006
    assert abs((seen == 77).mean() - same) < 0.006
    assert abs(((seen != 4) & (seen != 77)).mean() - random) < 0.006
    if mask in (0, 1):
        assert ((seen == 4).mean() < 0.01) == (mask == 0)


def test_the_papers_mix_is_the_default() -> None:
    assert read_split("paper") == (MASKS.mask_share, MASKS.random_share)


@pytest.mark.parametrize("text", ["80/10", "80/10/20", "90/-10/20", "some", "a/b/c", "nan/50/50"])
def test_a_mix_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"sum to 100.*same-random"):
        read_split(text)
