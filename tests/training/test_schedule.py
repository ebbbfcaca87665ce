"""The learning rate's course."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bertkit.training.config import TrainOptions
from bertkit.training.schedule import learning_rate


def rates(**changes: object) -> list[float]:
    options = TrainOptions(steps=100, learning_rate=1e-3, warmup_steps=10, **changes)  # type: ignore[arg-type]
    return [learning_rate(step, options) for step in range(100)]


def test_warm_up_rises_to_the_peak_and_decay_falls_from_it() -> None:
    course = rates()
    assert course[9] == course[10] == max(course) == 1e-3
    assert all(a < b for a, b in pairwise(course[:10]))
    assert all(a > b for a, b in pairwise(course[10:]))


def test_no_step_is_wasted_at_rate_zero() -> None:
    assert min(rates()) > 0
    assert rates()[-1] < 2e-5


def test_constant_stays_at_the_peak() -> None:
    assert set(rates(schedule="constant")[10:]) == {1e-3}


def test_without_warm_up_the_first_step_is_the_peak() -> None:
    assert learning_rate(0, TrainOptions(steps=5, learning_rate=0.5)) == 0.5


def test_cosine_falls_slowly_then_fast_then_slowly() -> None:
    course = rates(schedule="cosine")
    assert course[:11] == rates()[:11]
    for step in (10, 40, 70, 99):
        expected = 1e-3 * 0.5 * (1 + math.cos(math.pi * (step - 10) / 90))
        assert course[step] == pytest.approx(expected)
    assert min(course) > 0


def test_wsd_stays_at_the_peak_and_falls_in_the_last_share() -> None:
    course = rates(schedule="wsd", decay=0.2)
    assert set(course[9:81]) == {1e-3}
    assert all(a > b for a, b in pairwise(course[80:]))
    assert course[-1] == pytest.approx(1e-3 / 20)
    assert set(rates(schedule="wsd", decay=0.0)[9:]) == {1e-3}
    assert rates(schedule="wsd", decay=0.99)[10:] == pytest.approx(rates()[10:])


def reference(step: int, peak: float, steps: int, warmup: int) -> float:
    """`create_optimizer` of the reference release (optimization.py), in plain numbers."""
    rate = peak * (1 - step / steps)  # polynomial_decay with power 1 to 0
    return peak * step / warmup if step < warmup else rate


def test_the_references_warm_up_starts_at_zero_and_jumps_at_its_end() -> None:
    course = rates(reference_warmup=True)
    assert course == pytest.approx([reference(step, 1e-3, 100, 10) for step in range(100)])
    assert course[0] == 0.0
    assert course[9] == pytest.approx(0.9e-3)
    assert course[10] == pytest.approx(0.9e-3)  # not the peak: a tenth of the steps is over
    cosine = rates(schedule="cosine", reference_warmup=True)
    assert cosine[10] == pytest.approx(1e-3 * 0.5 * (1 + math.cos(math.pi * 0.1)))
