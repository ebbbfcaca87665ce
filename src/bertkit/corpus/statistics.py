"""Counts and length distributions of a corpus, from the files of its shards.

They are exact, not sampled. Lengths of sentences are counted by value, which takes no memory that
grows; of each document one number is kept (4 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.corpus.format import OFFSET, shard_file

PERCENTILES = (5, 10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True)
class Lengths:
    """How long things are.

    Attributes:
        mean: the average.
        percentiles: for 5, 10, 25, 50, 75, 90, 95 and 99 (as text, for JSON has no other keys)
            the smallest length that at least so many per cent do not exceed.
        longest: of all.
    """

    mean: float
    percentiles: dict[str, int]
    longest: int

    @property
    def median(self) -> int:
        return self.percentiles["50"]


@dataclass(frozen=True)
class SplitStatistics:
    """What one split holds.

    Attributes:
        unknown: how many of the tokens are [UNK].
        sentence_tokens, document_tokens: tokens of a sentence and of a document.
        document_sentences: sentences of a document.
    """

    documents: int
    sentences: int
    tokens: int
    unknown: int
    sentence_tokens: Lengths
    document_tokens: Lengths
    document_sentences: Lengths


def statistics(folder: Path, shards: dict[int, dict[str, Any]]) -> dict[str, SplitStatistics]:
    """The statistics of each split, "train" first.

    Args:
        folder: where the shards' files lie.
        shards: their entries in the manifest, by their numbers.
    """
    names = {name for shard in shards.values() for name in shard["splits"]}
    return {name: _split(folder, shards, name) for name in sorted(names, reverse=True)}


def _split(folder: Path, shards: dict[int, dict[str, Any]], name: str) -> SplitStatistics:
    by_length = np.zeros(1, dtype=np.int64)  # sentences of each number of tokens
    tokens: list[np.ndarray] = []
    sentences: list[np.ndarray] = []
    totals = dict.fromkeys(("documents", "sentences", "tokens", "unknown"), 0)
    for number, shard in shards.items():
        if name not in shard["splits"]:
            continue
        for key in totals:
            totals[key] += shard["splits"][name][key]
        # read, not mapped: mapped pages stay with the process
        sentence_ends = np.fromfile(folder / shard_file(number, name, "sentences"), OFFSET)
        document_ends = np.fromfile(folder / shard_file(number, name, "documents"), OFFSET)
        counted = np.bincount(np.diff(sentence_ends))
        longer = max(len(counted), len(by_length))
        by_length = np.pad(by_length, (0, longer - len(by_length)))
        by_length[: len(counted)] += counted
        tokens.append(np.diff(sentence_ends[document_ends]))
        sentences.append(np.diff(document_ends))
    return SplitStatistics(
        **totals,
        sentence_tokens=_from_counts(by_length),
        document_tokens=_from_lengths(tokens),
        document_sentences=_from_lengths(sentences),
    )


def _from_counts(counts: np.ndarray) -> Lengths:
    """From how often each length occurs."""
    ends = np.cumsum(counts)
    ranks = [_rank(percentile, int(ends[-1])) for percentile in PERCENTILES]
    places = np.searchsorted(ends, ranks, side="right").tolist()
    return Lengths(
        mean=float(np.arange(len(counts)) @ counts) / int(ends[-1]),
        percentiles={str(key): place for key, place in zip(PERCENTILES, places, strict=True)},
        longest=int(np.flatnonzero(counts)[-1]),
    )


def _from_lengths(parts: list[np.ndarray]) -> Lengths:
    lengths = np.sort(np.concatenate(parts))
    return Lengths(
        mean=float(lengths.mean(dtype=np.float64)),
        percentiles={str(key): int(lengths[_rank(key, len(lengths))]) for key in PERCENTILES},
        longest=int(lengths[-1]),
    )


def _rank(percentile: int, count: int) -> int:
    """Which of so many sorted values is the percentile, from 0."""
    return max(-(-percentile * count // 100) - 1, 0)
