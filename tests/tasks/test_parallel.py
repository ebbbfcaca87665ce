"""Batches side by side: every result once, in order, each computed on one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from bertkit.tasks.parallel import LEAST_EACH, compute_each

CPU = torch.device("cpu")


@pytest.fixture
def three_threads(threads: Callable[[int], None]) -> None:
    threads(3)


@pytest.mark.parametrize("count", [0, 1, 3 * LEAST_EACH - 1, 3 * LEAST_EACH, 40])
def test_every_result_comes_once_and_in_order(three_threads, count: int) -> None:
    items = range(count)
    assert list(compute_each(lambda n: n * n, items, CPU)) == [(n, n * n) for n in items]


def test_many_batches_are_computed_on_a_thread_each_without_gradients(three_threads) -> None:
    three_at_once = threading.Barrier(3, timeout=60)

    def tell(item: int) -> tuple[bool, int]:
        three_at_once.wait()  # ends only where three are computed at the same time
        return torch.is_inference_mode_enabled(), torch.get_num_threads()

    assert [told for _, told in compute_each(tell, range(12), CPU)] == [(True, 1)] * 12
    assert torch.get_num_threads() == 3
    thread_numbers: list[int] = []
    later = threading.Thread(target=lambda: thread_numbers.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert thread_numbers == [3]


def test_few_batches_have_all_threads_each(three_threads) -> None:
    def tell(item: int) -> tuple[bool, int, int]:
        return torch.is_inference_mode_enabled(), torch.get_num_threads(), threading.get_ident()

    told = [told for _, told in compute_each(tell, range(2), CPU)]
    assert told == [(True, 3, threading.get_ident())] * 2


def test_no_more_batches_begin_after_one_that_fails(three_threads) -> None:
    begun = []

    def fail(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError("batch 1")
        return item

    with pytest.raises(ValueError, match="batch 1"):
        list(compute_each(fail, range(1000), CPU))
    assert len(begun) < 20
    assert torch.get_num_threads() == 3
