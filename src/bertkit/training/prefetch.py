"""Batches built in the background while the training computes; in order, whatever the threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


AHEAD = 2
"""Steps that wait ready, beside the one that each thread builds."""


def prefetched(
    build: Callable[[int], T], first: int, steps: int, workers: int
) -> Generator[tuple[int, T], None, None]:
    """Yields (step, its micro-batches) from `first` on; `workers` threads build the next ones.

    `build` must be a pure function of the step that threads may call at once. Closing the
    iterator waits for what is being built.
    """
    if workers == 0:
        for step in range(first, steps):
            yield step, build(step)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="batches")
    waiting: deque[Future[T]] = deque()
    try:
        for step in range(first, steps):
            while len(waiting) < workers + AHEAD and step + len(waiting) < steps:
                waiting.append(pool.submit(build, step + len(waiting)))
            yield step, waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
