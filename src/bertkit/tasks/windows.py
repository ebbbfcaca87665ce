"""Long texts in windows: how many tokens in, what each sequence shows of them out.

A text that does not fit is read in windows that overlap by a quarter; the last one is moved back
so that it is full. Each token belongs to the window that shows most around it: the border lies in
the middle of the overlap.

    tokens      0 ........................ 21        room 12
    window 1    0 . . . . . . . . . . 11
    window 2                    9 . . . . . . . . . . 20
    window 3                      10 . . . . . . . . . . 21

Of a pair the shorter text stands whole in every window and the longer one moves past it. Only a
shorter text of more than half the room loses its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from bertkit.errors import UserError
from bertkit.tasks.config import Long, WindowMean
from bertkit.tasks.task import FeatureSet, Merge
from bertkit.text.tokenizer import Tokenizer, truncated_lengths

Sequences = list[tuple[list[int], list[int]]]
"""(ids, segments) of each."""

OVERLAP = 4
"""Windows of a long text share this part of their length: one quarter."""


@dataclass(frozen=True)
class TextWindow:
    """What one sequence shows.

    Attributes:
        shown: for the text, and for the second text of a pair, the tokens in the sequence.
        own: for each, the tokens that belong to this window. Every token that is shown at all
            belongs to exactly one.
    """

    shown: tuple[range, ...]
    own: tuple[range, ...]


def moving_windows(count: int, room: int) -> list[tuple[range, range]]:
    """(tokens shown, tokens that belong to it) of each window over `count` tokens."""
    if count <= room:
        return [(range(count), range(count))]
    step = room - room // OVERLAP
    starts = [*range(0, count - room, step), count - room]
    borders = [0, *((a + room + b) // 2 for a, b in pairwise(starts)), count]
    return [
        (range(start, start + room), range(borders[k], borders[k + 1]))
        for k, start in enumerate(starts)
    ]


def text_windows(lengths: Sequence[int], room: int) -> tuple[list[TextWindow], bool]:
    """Cuts a text, or a pair of them, into sequences of at most `room` tokens.

    Args:
        lengths: tokens of the text, and of the second one of a pair.
        room: tokens of the longest sequence without its special ones.

    Returns:
        The windows, and whether the shorter text of a pair lost its end.

    Raises:
        UserError: there is no room for a token of each text.
    """
    if room < len(lengths):
        raise UserError(
            f"{max(room, 0)} tokens beside the special ones leave no room for "
            "each text; use a larger --sequence-length"
        )
    if len(lengths) == 1:
        return [TextWindow((shown,), (own,)) for shown, own in moving_windows(lengths[0], room)], (
            False
        )
    moving = 0 if lengths[0] > lengths[1] else 1
    standing = lengths[1 - moving]
    kept = standing if sum(lengths) <= room else min(standing, room // 2)
    windows = []
    for number, (shown, own) in enumerate(moving_windows(lengths[moving], room - kept)):
        beside = range(kept), range(kept if number == 0 else 0)
        parts = ((shown, own), beside) if moving == 0 else (beside, (shown, own))
        windows.append(TextWindow(tuple(p[0] for p in parts), tuple(p[1] for p in parts)))
    return windows, kept < standing


def text_sequences(
    parts: Sequence[list[int]], tokenizer: Tokenizer, sequence_length: int, long: Long
) -> tuple[Sequences, bool]:
    """A text or a pair as one sequence, or as several where it is too long.

    Args:
        parts: the ids of the text, and of the second one of a pair.
        long: "cut" makes one sequence, cut as in the reference release: the longer text first.

    Returns:
        The sequences, and whether tokens were lost.
    """
    lengths = [len(part) for part in parts]
    room = sequence_length - len(parts) - 1
    if long == "windows" and sum(lengths) > room:
        windows, lost = text_windows(lengths, room)
        shown = [window.shown for window in windows]
    else:
        kept = truncated_lengths(lengths[0], sum(lengths[1:]), max(room, 0))
        shown, lost = [tuple(map(range, kept))], sum(kept) < sum(lengths)
    sequences = []
    for ranges in shown:
        ids, segments = [tokenizer.cls_id], [0]
        for segment, (part, here) in enumerate(zip(parts, ranges, strict=False)):
            ids += [*part[here.start : here.stop], tokenizer.sep_id]
            segments += [segment] * (len(ids) - len(segments))
        sequences.append((ids, segments))
    return sequences, lost


def windows_of(made: FeatureSet) -> dict[int, int]:
    """Example -> units, for the examples that became several."""
    units = Counter(unit.example for unit in made.features)
    return {example: count for example, count in units.items() if count > 1}


def merged(
    units: Sequence[Any], outputs: Sequence[Any], merge: Merge, mean: WindowMean
) -> tuple[list[Any], list[Any]]:
    """One unit, its first, and one output for each example; an example's units lie together."""
    kept, found = [], []
    numbered = zip(units, outputs, strict=True)
    for _, group in groupby(numbered, key=lambda one: one[0].example):
        pairs = list(group)
        kept.append(pairs[0][0])
        one = len(pairs) == 1
        found.append(pairs[0][1] if one else merge(np.stack([row for _, row in pairs]), mean))
    return kept, found


def merge_softmax(rows: np.ndarray, mean: WindowMean) -> np.ndarray:
    """[windows, ..., classes] probabilities -> [..., classes]: their mean, or that of their logits.

    The softmax of the mean of logits is that of the mean of log-probabilities.
    """
    if mean == "probabilities":
        return rows.mean(axis=0)
    values = np.log(np.maximum(rows, np.finfo(np.float32).tiny)).mean(axis=0)
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def merge_sigmoid(rows: np.ndarray, mean: WindowMean) -> np.ndarray:
    """[windows, labels] probabilities of labels each by itself -> [labels]."""
    if mean == "probabilities":
        return rows.mean(axis=0)
    rows = np.clip(rows.astype(np.float64), 1e-7, 1 - 1e-7)
    return 1 / (1 + np.exp(-np.log(rows / (1 - rows)).mean(axis=0)))


def merge_numbers(rows: np.ndarray, mean: WindowMean) -> np.ndarray:
    """[windows, ...] -> [...]: the mean."""
    return rows.mean(axis=0)
