"""SIGTERM as an exception, so that what cleans up after Ctrl-C cleans up after it too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bertkit.errors import Interrupted


@contextmanager
def sigterm_interrupts(message: str = "stopped; nothing was written") -> Iterator[None]:
    """While it is open, SIGTERM raises `Interrupted(message)`.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(message, number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
