"""Means from one line of the log to the next, by a clock that the test holds."""

from __future__ import annotations

import time

import pytest

from bertkit.training.meter import Meter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    held = Clock()
    monkeypatch.setattr(time, "monotonic", held)
    return held


def test_waiting_is_the_share_of_the_window_in_which_batches_were_not_ready(clock: Clock) -> None:
    meter = Meter()
    for _ in range(4):
        with meter.waiting():
            clock.now += 0.5
        clock.now += 1.5
        meter.add({"loss": (2.0, 1)}, 100)
    first = meter.window()
    assert first["waiting"] == 0.25
    assert first["tokens_per_second"] == 50
    clock.now += 3
    assert meter.window()["waiting"] == 0, "a window starts anew"


def test_a_pause_is_no_time_of_the_training(clock: Clock) -> None:
    meter = Meter(seconds_before=10)
    clock.now += 2
    with meter.paused():
        clock.now += 50
    assert meter.seconds() == 12
    assert meter.window()["seconds"] == 12
