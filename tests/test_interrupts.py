"""SIGTERM ends a command as Ctrl-C does: by an exception that cleans up."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from bertkit.errors import Interrupted
from bertkit.interrupts import interrupting


def test_sigterm_is_an_exception_inside_and_what_it_was_outside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(Interrupted, match="half done") as caught,
        interrupting(signal.SIGTERM, message="half done"),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    assert caught.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_it_does_nothing() -> None:
    seen: list[object] = []

    def work() -> None:
        with interrupting(signal.SIGTERM, message="half done"):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
