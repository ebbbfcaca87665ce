"""Batches for answers: a window of the input at a time, in it sequences of like length together.

A window bounds the memory, so an input may be a stream without end; inside a window sequences are
sorted by length and cut by a budget of tokens, and results come back in the input's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from bertkit.model.batch import FlatBatch
from bertkit.tasks.batches import by_budget

WINDOW_TEXTS = 4096
WINDOW_CHARACTERS = 1 << 24
"""A window ends with whichever is reached first."""

T = TypeVar("T")


def text_size(item: Any) -> int:
    """Characters of a text or a pair."""
    return len(item) if isinstance(item, str) else sum(map(len, item))


def in_windows(
    items: Iterable[T], most: int | None = None, size: Callable[[T], int] = text_size
) -> Iterator[list[T]]:
    """Cuts a stream of texts, or pairs of them, into lists that fit in memory.

    Args:
        most: characters in a list, if fewer than usual. Each item counts two more, as the special
            tokens of a text do.
        size: item -> its characters.
    """
    limit = WINDOW_CHARACTERS if most is None else most
    window: list[T] = []
    characters = 0
    for item in items:
        window.append(item)
        characters += size(item)
        if len(window) == WINDOW_TEXTS or characters + 2 * len(window) >= limit:
            yield window
            window, characters = [], 0
    if window:
        yield window


def flat_batches(
    ids: Sequence[Sequence[int]], segments: Sequence[Sequence[int]], budget: int
) -> Iterator[tuple[list[int], FlatBatch]]:
    """Yields (numbers of the sequences, their batch), each of at most `budget` tokens."""
    for group in by_budget([len(one) for one in ids], budget):
        yield (
            group,
            FlatBatch.from_sequences([ids[n] for n in group], [segments[n] for n in group]),
        )
