"""The errors a user can meet. Each is one line: what is wrong, where, and what to do."""

from __future__ import annotations

import signal as signals
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class UserError(Exception):
    """A mistake the user can mend. The command line prints it as one line and exits with code 2.

    Write the message as "what is wrong, where; what to do", without a trailing full stop.
    """


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked for it
    """Ctrl-C or SIGTERM ended a long command after it had saved its work.

    `signal` is the signal's number; the command line exits with 128 + signal, as shells do.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


@contextmanager
def sigterm_interrupts(message: str = "stopped; nothing was written") -> Iterator[None]:
    """Turns SIGTERM into `Interrupted`, so that it cleans up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(message, number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signals.signal(signals.SIGTERM, interrupt)
    try:
        yield
    finally:
        signals.signal(signals.SIGTERM, previous)
