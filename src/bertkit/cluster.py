"""The work of `parallel_map` on a Ray cluster: items out to actors, results back in order.

An actor is a worker that stays, so that the tokenizer's memory of words stays too. The items go
round the actors by turns; two for each are on their way, so nothing is read far ahead.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from bertkit.errors import UserError
from bertkit.extras import need

Item = TypeVar("Item")
Result = TypeVar("Result")


def ray_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None
) -> Generator[Result, None, None]:
    """`work(item)` for each item, in order, by actors of a Ray cluster.

    The cluster is the one that Ray is connected to, or that RAY_ADDRESS or `ray start` on this
    machine tells of; without any, a local one is started and ended with the generator. bertkit
    must be installed on every machine of it.

    Args:
        work: as for `parallel_map`.
        items: likewise.
        workers: actors; None for one on each processor of the cluster.

    Raises:
        UserError: Ray is not installed or does not start, or an actor died.
    """
    ray = need("ray", "ray", "the engine ray needs", "or leave --engine out")
    ours = not ray.is_initialized()
    if ours:
        _connect(ray)
    actors: list[Any] = []
    try:
        processors = ray.cluster_resources().get("CPU", 1)
        count = workers or max(int(processors), 1)
        actor_class = ray.remote(num_cpus=min(processors / count, 1))(_Actor)
        shared = ray.put(work)
        actors = [actor_class.remote(shared) for _ in range(count)]
        pending: deque[Any] = deque()
        for number, item in enumerate(items):
            pending.append(actors[number % count].work.remote(item))
            if len(pending) >= 2 * count:
                yield ray.get(pending.popleft())
        while pending:
            yield ray.get(pending.popleft())
    except ray.exceptions.RayActorError as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"a worker of the Ray cluster died ({reason}); the same command continues"
        ) from error
    finally:
        if ours:
            ray.shutdown()
        else:
            for actor in actors:
                ray.kill(actor)


def _connect(ray: Any) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no message home, and none about it
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"Ray does not start: {reason}; see --engine") from error


class _Actor:
    """What a worker of the cluster does."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def work(self, item: Any) -> Any:
        return self._work(item)
