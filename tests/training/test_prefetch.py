"""Batches built in the background: in order, a few ahead, errors handed over."""

from __future__ import annotations

import random
import threading
import time

import pytest

from bertkit.errors import UserError
from bertkit.training.batch import Batch
from bertkit.training.prefetch import AHEAD, prefetched


class Uneven:
    """Steps that take unequal times to build."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.threads: set[int] = set()

    def __call__(self, step: int) -> list[Batch]:
        self.asked.append(step)
        self.threads.add(threading.get_ident())
        time.sleep(random.Random(step).random() * 0.01)
        return [step]  # type: ignore[list-item]


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_steps_come_in_order_whatever_the_threads(workers: int) -> None:
    build = Uneven()
    assert [(step, *built) for step, built in prefetched(build, 3, 40, workers)] == [
        (step, step) for step in range(3, 40)
    ]
    assert sorted(build.asked) == list(range(3, 40))
    assert len(build.threads) <= max(1, workers)


def test_only_a_few_steps_are_built_ahead_and_closing_stops_it() -> None:
    build = Uneven()
    stream = prefetched(build, 0, 1000, 2)
    next(stream)
    stream.close()
    seen = len(build.asked)
    assert seen <= 2 + AHEAD
    time.sleep(0.05)
    assert len(build.asked) == seen


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_in_the_source_reaches_the_training(workers: int) -> None:
    def broken(step: int) -> list[Batch]:
        if step == 2:
            raise UserError("the corpus is gone")
        return []

    with pytest.raises(UserError, match="the corpus is gone"):
        list(prefetched(broken, 0, 5, workers))
