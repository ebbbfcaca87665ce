"""Means of what the steps report, for the log and the progress bar."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Meter:
    """Sums of what the steps report, from one line of the log to the next."""

    def __init__(self, seconds_before: float = 0.0, tokens_before: int = 0) -> None:
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._started = time.monotonic() - seconds_before
        self._window_started = time.monotonic()
        self._window_tokens = 0
        self._window_waited = 0.0
        self._tokens = tokens_before
        self._latest: dict[str, float] = {}

    def add(self, values: dict[str, tuple[float, float]], tokens: int) -> None:
        for name, (total, count) in values.items():
            self._sums[name][0] += total
            self._sums[name][1] += count
        self._tokens += tokens
        self._window_tokens += tokens

    def seconds(self) -> float:
        return time.monotonic() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which time does not count as training."""
        began = time.monotonic()
        try:
            yield
        finally:
            away = time.monotonic() - began
            self._started += away
            self._window_started += away

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A context in which the training waits for its next micro-batches."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._window_waited += time.monotonic() - began

    def window(self) -> dict[str, float]:
        """The means since the last call; seconds and tokens are those of the whole run, "waiting"
        is the share of the time in which the next micro-batches were not ready."""
        elapsed = time.monotonic() - self._window_started
        values = {
            name: total / count for name, (total, count) in sorted(self._sums.items()) if count
        }
        self._latest = values
        values = {
            "seconds": round(self.seconds(), 2),
            "tokens": self._tokens,
            "tokens_per_second": round(self._window_tokens / elapsed, 1) if elapsed else 0.0,
            "waiting": round(self._window_waited / elapsed, 4) if elapsed else 0.0,
            **{name: float(f"{value:.6g}") for name, value in values.items()},
        }
        self._rate = values["tokens_per_second"]
        self._sums.clear()
        self._window_tokens = 0
        self._window_waited = 0.0
        self._window_started = time.monotonic()
        return values

    def detail(self) -> str:
        """The latest means in one short line for the progress bar."""
        shown = [
            f"{name.replace('_', ' ')} {value:.1%}" if "accuracy" in name else f"{name} {value:.3f}"
            for name, value in self._latest.items()
            if name == "loss" or name.endswith("accuracy")
        ]
        if self._latest:
            shown.append(f"{self._rate:,.0f} tokens/s")
        return "  ".join(shown)
