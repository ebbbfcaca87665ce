"""Batches for answers: a window of the input at a time, in it sequences of like length together.

A window bounds the memory, so an input may be a stream without end; inside a window sequences are
sorted by length and cut by a budget of tokens, and results come back in the input's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from torch import nn

from bertkit.model.batch import FlatBatch
from bertkit.tasks.batches import by_budget
from bertkit.tasks.parallel import compute_each

WINDOW_TEXTS = 4096
WINDOW_CHARACTERS = 1 << 24
"""A window ends with whichever is reached first."""

T = TypeVar("T")


def text_size(item: Any) -> int:
    """Characters of a text or a pair."""
    return len(item) if isinstance(item, str) else sum(map(len, item))


def in_windows(
    items: Iterable[T],
    most: int | None = None,
    size: Callable[[T], int] = text_size,
    together: Callable[[T, T], bool] | None = None,
) -> Iterator[list[T]]:
    """Cuts a stream of texts, or pairs of them, into lists that fit in memory.

    Args:
        most: characters in a list, if fewer than usual. Each item counts two more, as the special
            tokens of a text do.
        size: item -> its characters.
        together: (item, the next) -> whether they must be in one list; a list then waits for the
            item after it.
    """
    limit = WINDOW_CHARACTERS if most is None else most
    window: list[T] = []
    characters = 0
    full = False
    for item in items:
        if full and together is not None and not together(window[-1], item):
            yield window
            window, characters = [], 0
        window.append(item)
        characters += size(item)
        full = len(window) >= WINDOW_TEXTS or characters + 2 * len(window) >= limit
        if full and together is None:
            yield window
            window, characters = [], 0
    if window:
        yield window


def compute_batches(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    segments: Sequence[Sequence[int]],
    budget: int,
    compute: Callable[[FlatBatch], list[T]],
) -> Iterator[tuple[int, T]]:
    """Yields (number of the sequence, what `compute` makes of it), each sequence once.

    Args:
        model: put in evaluation mode; its device gets the batches.
        ids, segments: of each sequence.
        budget: most tokens in a batch.
        compute: batch -> one result for each of its sequences, without gradients.
    """
    device = next(model.parameters()).device
    if model.training:
        model.eval()

    def results(group: list[int]) -> list[T]:
        batch = FlatBatch.from_sequences([ids[n] for n in group], [segments[n] for n in group])
        return compute(batch.to(device))

    groups = by_budget([len(one) for one in ids], budget)
    for group, found in compute_each(results, groups, device):
        yield from zip(group, found, strict=True)
