"""Ctrl-C and SIGTERM during long work: finish what is begun, save, leave."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

SAME_SIGNAL = 1.0
"""Seconds within which two signals are one."""


class InterruptGuard:
    """While it is open, the first Ctrl-C or SIGTERM is only noted in `received`.

    A second one interrupts at once, for a step may be long; within a second it is taken for the
    same one, which a terminal and torchrun both pass on. Outside the main thread Python
    delivers no signals, and in a worker process the parent decides: there the guard does nothing.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received: int | None = None
        self._at = 0.0
        self._waits = True
        self._previous: dict[int, object] = {}

    def __enter__(self) -> InterruptGuard:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and multiprocessing.parent_process() is None:
            for number in self.SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextmanager
    def obeying(self) -> Iterator[None]:
        """While it is open the first signal raises KeyboardInterrupt; so does one noted before."""
        self._waits = False
        try:
            if self.received is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._waits = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self._at = number, time.monotonic()
            if not self._waits:
                raise KeyboardInterrupt
        elif time.monotonic() - self._at > SAME_SIGNAL:
            raise KeyboardInterrupt
