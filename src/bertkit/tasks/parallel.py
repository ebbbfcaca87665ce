"""Batches computed side by side: each on one thread, as many at a time as there are threads.

Two threads that share one matrix product wait for each other at its end, and at the end of every
smaller step; two threads with a batch each never wait. What a batch gives does not depend on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

LEAST_EACH = 2
"""Batches for each thread, below which all threads work on one batch at a time: the last batches
would leave threads without work."""


def compute_each(
    compute: Callable[[Item], Result], items: Iterable[Item], device: torch.device
) -> Iterator[tuple[Item, Result]]:
    """Yields (item, `compute(item)`), in order, computed without gradients.

    Args:
        compute: may run in another thread.
        items: what makes a batch each.
        device: where it is computed: side by side on a CPU only.
    """
    items, threads = list(items), torch.get_num_threads()

    def without_gradients(item: Item) -> Result:
        with torch.inference_mode():  # holds for its own thread only
            return compute(item)

    if threads == 1 or device.type != "cpu" or len(items) < LEAST_EACH * threads:
        for item in items:
            yield item, without_gradients(item)
        return
    pool = ThreadPoolExecutor(threads, "batch", initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(without_gradients, item)))
            if len(waiting) > 2 * threads:  # no more results in memory than that
                first, result = waiting.popleft()
                yield first, result.result()
        for item, result in waiting:
            yield item, result.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # new threads begin with what was set last anywhere
