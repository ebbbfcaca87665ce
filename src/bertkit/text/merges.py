"""Merging neighbouring pieces: words spelled in small pieces in, ever larger pieces out.

Byte-pair encoding over words: again and again the best pair of neighbouring pieces becomes one
piece, everywhere. What "best" means is the criterion; with count(a) the occurrences of a piece and
count(ab) those of two pieces side by side, over all words as they are spelled at that moment:

    frequency     count(ab), what everybody's substitute for the paper's learner does
    likelihood    count(ab) / (count(a) * count(b)), the criterion of the WordPiece papers: the
                  merge that raises the likelihood of the text under a unigram model of pieces
                  most, for each of its occurrences. The quotient is rounded to a double.

A pair is merged only if count(ab) is at least `min_frequency`. The likelihood needs that guard:
nothing scores higher than two pieces that occur once, and together. Among pairs that score the
same the smaller by code point goes first (the left piece, then the right one).

In "aaa" the pair (a, a) counts twice; merging goes from the left.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from bertkit.text.wordpiece import PREFIX

Criterion: TypeAlias = Literal["frequency", "likelihood"]
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge: `left` and `right` have become `piece`, `count` times."""

    piece: str
    left: str
    right: str
    count: int


class Merger:
    """Words as they are spelled, and the merges that shorten them.

    Counts of pairs are kept up to date: a merge visits only the words that hold the pair. The heap
    may hold outdated scores; an entry counts only if it still agrees with the tables. A score that
    has risen gets a new entry at once, one that has fallen when it is met.

    Args:
        spelled: words as lists of pieces, "##" included, each with its count. The lists are
            changed.
        min_frequency: how often a pair must occur to be merged.
        criterion: see above.

    Attributes:
        piece_counts: how often each piece occurs now.
    """

    def __init__(
        self,
        spelled: Iterable[tuple[list[str], int]],
        min_frequency: int,
        criterion: Criterion = "frequency",
    ) -> None:
        self.min_frequency = min_frequency
        self.by_likelihood = criterion == "likelihood"
        self.piece_counts: defaultdict[str, int] = defaultdict(int)
        self._pair_counts: defaultdict[Pair, int] = defaultdict(int)
        # Where each pair occurs or has occurred: numbers of words, perhaps more than once.
        self._places: defaultdict[Pair, array[int]] = defaultdict(lambda: array("I"))
        self._partners: defaultdict[str, set[Pair]] = defaultdict(set)  # for likelihood only
        self._words: list[list[str]] = []
        self._counts: list[int] = []
        for pieces, count in spelled:
            for piece in pieces:
                self.piece_counts[piece] += count
            if len(pieces) > 1:
                for pair in pairwise(pieces):
                    self._pair_counts[pair] += count
                    self._places[pair].append(len(self._words))
                self._words.append(pieces)
                self._counts.append(count)
        if self.by_likelihood:
            for left, right in self._pair_counts:
                self._partners[left].add((left, right))
                self._partners[right].add((left, right))
        self._heap = self._fresh_heap()

    def __iter__(self) -> Iterator[Merge]:
        """Merges the best pair, then the next best, until none occurs often enough."""
        while self._heap:
            negative, pair = heapq.heappop(self._heap)
            if self._pair_counts.get(pair, 0) < self.min_frequency:
                continue
            score = self._score(pair)
            if score != -negative:
                if score < -negative:
                    heapq.heappush(self._heap, (-score, pair))
                continue
            yield self._merge(pair)

    def _score(self, pair: Pair) -> float:
        count = self._pair_counts[pair]
        if self.by_likelihood:
            return count / (self.piece_counts[pair[0]] * self.piece_counts[pair[1]])
        return count

    def _fresh_heap(self) -> list[tuple[float, Pair]]:
        heap = [
            (-self._score(pair), pair)
            for pair, count in self._pair_counts.items()
            if count >= self.min_frequency
        ]
        heapq.heapify(heap)
        return heap

    def _merge(self, pair: Pair) -> Merge:
        left, right = pair
        piece = left + right.removeprefix(PREFIX)
        pair_counts, places = self._pair_counts, self._places
        changes: defaultdict[Pair, int] = defaultdict(int)
        total = 0
        for number in set(places.pop(pair)):
            old, count = self._words[number], self._counts[number]
            new: list[str] = []
            at, last = 0, len(old) - 1
            while at <= last:
                if old[at] == left and at < last and old[at + 1] == right:
                    new.append(piece)
                    at += 2
                else:
                    new.append(old[at])
                    at += 1
            if len(new) == len(old):
                continue  # an earlier merge has taken the pair from this word
            total += count * (len(old) - len(new))
            for one in pairwise(old):
                changes[one] -= count
            for one in pairwise(new):
                changes[one] += count
                if piece in one:
                    places[one].append(number)
            self._words[number] = new
        self.piece_counts[left] -= total
        self.piece_counts[right] -= total
        self.piece_counts[piece] += total
        for one, change in changes.items():
            if change:
                pair_counts[one] += change
                if not pair_counts[one]:
                    self._forget(one)
        self._push(pair, piece, changes)
        return Merge(piece, left, right, total)

    def _push(self, pair: Pair, piece: str, changes: dict[Pair, int]) -> None:
        """Puts on the heap the pairs whose scores may have risen."""
        risen: Iterable[Pair]
        grown = [one for one in changes if piece in one and one in self._pair_counts]
        if not self.by_likelihood:
            risen = grown
        else:
            for one in grown:
                self._partners[one[0]].add(one)
                self._partners[one[1]].add(one)
            # Its two pieces have become rarer, and all pairs with one of them score higher.
            risen = self._partners[pair[0]] | self._partners[pair[1]] | set(grown)
        for one in risen:
            if self._pair_counts[one] >= self.min_frequency:
                heapq.heappush(self._heap, (-self._score(one), one))
        if len(self._heap) > 4 * len(self._pair_counts) + 1024:
            self._heap = self._fresh_heap()

    def _forget(self, pair: Pair) -> None:
        del self._pair_counts[pair]
        self._places.pop(pair, None)
        if self.by_likelihood:
            self._partners[pair[0]].discard(pair)
            self._partners[pair[1]].discard(pair)
