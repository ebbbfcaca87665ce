"""Signals as an exception, so that what cleans up after an error cleans up after them too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bertkit.errors import Interrupted


@contextmanager
def interrupting(*numbers: int, message: str) -> Iterator[None]:
    """While it is open, the signals `numbers` raise `Interrupted(message)`.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(message, number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
