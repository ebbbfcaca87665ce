"""The learning rate's course."""

from __future__ import annotations

from itertools import pairwise

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
