"""Ctrl-C and SIGTERM are noted, not obeyed at once."""

from __future__ import annotations

import os
import signal

import pytest

from bertkit.training.interrupt import InterruptGuard


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_a_later_one_interrupts(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(number)
    with InterruptGuard() as guard:
        os.kill(os.getpid(), number)
        assert guard.received == number
        os.kill(os.getpid(), number)  # at once: the same one, passed on by torchrun
        monkeypatch.setattr("bertkit.training.interrupt.SAME_SIGNAL", 0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
