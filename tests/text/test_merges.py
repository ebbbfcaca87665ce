"""Merges by both criteria, against counting everything again before each merge."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from bertkit.text.merges import Criterion, Merger


def plain_merges(
    words: list[tuple[list[str], int]], least: int, criterion: Criterion
) -> list[tuple[str, str, str, int]]:
    """(piece, left, right, times) of each merge, by the definition."""
    words = [(list(pieces), count) for pieces, count in words]
    merges = []
    while True:
        singles: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for pieces, count in words:
            for piece in pieces:
                singles[piece] += count
            for pair in pairwise(pieces):
                pairs[pair] += count
        scores = {
            (left, right): count
            if criterion == "frequency"
            else count / (singles[left] * singles[right])
            for (left, right), count in pairs.items()
            if count >= least
        }
        if not scores:
            return merges
        left, right = min(scores, key=lambda pair: (-scores[pair], pair))
        piece, times = left + right.removeprefix("##"), 0
        for pieces, count in words:
            at = 0
            while at < len(pieces) - 1:
                if pieces[at] == left and pieces[at + 1] == right:
                    pieces[at : at + 2] = [piece]
                    times += count
                at += 1
        merges.append((piece, left, right, times))


def random_words(seed: int) -> list[tuple[list[str], int]]:
    draw = random.Random(seed)
    letters = "ab" if seed % 3 else "abcdé书"
    words = {"".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(50)}
    return [
        ([word[0], *["##" + letter for letter in word[1:]]], draw.randint(1, 9))
        for word in sorted(words)
    ]


@pytest.mark.parametrize("criterion", ["frequency", "likelihood"])
@pytest.mark.parametrize("least", [1, 2, 7])
@pytest.mark.parametrize("seed", range(25))
def test_merges_are_those_of_counting_anew_each_time(
    seed: int, least: int, criterion: Criterion
) -> None:
    words = random_words(seed)
    expected = plain_merges(words, least, criterion)
    merger = Merger([(list(pieces), count) for pieces, count in words], least, criterion)
    assert [(m.piece, m.left, m.right, m.count) for m in merger] == expected
    assert expected


@pytest.mark.parametrize("criterion", ["frequency", "likelihood"])
def test_the_order_of_the_words_changes_no_merge(criterion: Criterion) -> None:
    words = random_words(3)
    forwards = Merger([(list(pieces), count) for pieces, count in words], 2, criterion)
    backwards = Merger([(list(pieces), count) for pieces, count in words[::-1]], 2, criterion)
    assert list(forwards) == list(backwards)


def test_likelihood_prefers_pieces_that_occur_together_and_nowhere_else() -> None:
    words = [(["q", "##u"], 10), (["a", "##n"], 50), (["a"], 100), (["i", "##n"], 60)]
    assert next(iter(Merger([(list(w), n) for w, n in words], 2))).piece == "in"
    first = next(iter(Merger([(list(w), n) for w, n in words], 2, "likelihood")))
    assert (first.piece, first.count) == ("qu", 10)  # 10/(10*10) before 60/(60*110)


def test_a_pair_rarer_than_the_guard_is_not_merged_however_likely() -> None:
    words = [(["q", "##u"], 10), (["a", "##n"], 50), (["a"], 100)]
    assert [m.piece for m in Merger(words, 11, "likelihood")] == ["an"]


@pytest.mark.parametrize("criterion", ["frequency", "likelihood"])
def test_piece_counts_are_those_of_the_words_as_they_are_spelled(criterion: Criterion) -> None:
    merger = Merger([(["a", "##a", "##a", "##a"], 3), (["a"], 2)], 1, criterion)
    pieces = [merge.piece for merge in merger]
    assert pieces[-1] == "aaaa"
    assert {piece: n for piece, n in merger.piece_counts.items() if n} == {"aaaa": 3, "a": 2}
