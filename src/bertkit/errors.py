"""The errors a user can meet. Each is one line: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can mend. The command line prints it as one line and exits with code 2.

    Write the message as "what is wrong, where; what to do", without a trailing full stop.
    """


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM ended a command, a long one after it had saved its work.

    Like KeyboardInterrupt it is no Exception, so that nothing takes it for a broken file.

    `signal` is the signal's number; the command line exits with 128 + signal, as shells do.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal

    def __reduce__(self) -> tuple[type[Interrupted], tuple[str, int]]:
        return type(self), (str(self), self.signal)


def reason(error: Exception) -> str:
    """What a library's error says, in one line that a message can go on behind."""
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message: all of them, or the first and how many more."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
