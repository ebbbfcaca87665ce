"""Progress for people: a bar on a terminal, a plain line now and then elsewhere, on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

PLAIN_INTERVAL = 15.0
"""Seconds between two plain lines where there is no terminal."""

console = Console(stderr=True, highlight=False, emoji=False)


def say(message: str, quiet: bool = False) -> None:
    """Prints one line for the user on stderr, above a running bar."""
    if not quiet:
        console.print(message, markup=False, soft_wrap=True)


class Progress:
    """Progress of one long piece of work; use as a context manager.

    Args:
        label: what is being done, one or two words.
        total: how many units there are, or None when that is not known.
        unit: what is counted, for the plain lines ("steps", "documents").
        quiet: print nothing at all.
        done: units that an earlier part of the work has done; the time left counts without them.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "",
        quiet: bool = False,
        done: int = 0,
    ) -> None:
        self.label, self.total, self.unit, self.quiet = label, total, unit, quiet
        self.done = self._before = self._told = done
        self.detail = ""
        self._terminal = console.is_terminal and not quiet
        self._started = self._last_line = time.monotonic()
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self._terminal:
            self._bar = RichProgress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[detail]}", markup=False),
                console=console,
                transient=False,
            )
            self._task = self._bar.add_task(
                self.label, total=self.total, completed=self.done, detail=""
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None and self.done > self._told:
            self._line(last=True)

    def advance(self, units: int = 1, detail: str | None = None) -> None:
        """Counts `units` more as done; `detail` is shown behind the bar (losses, rates)."""
        self.done += units
        if detail is not None:
            self.detail = detail
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, detail=self.detail)
        elif not self.quiet and time.monotonic() - self._last_line >= PLAIN_INTERVAL:
            self._line()

    def resize(self, total: int) -> None:
        """The work turned out to have another total."""
        self.total = total
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def _line(self, last: bool = False) -> None:
        if self.quiet:
            return
        self._last_line, self._told = time.monotonic(), self.done
        elapsed = self._last_line - self._started
        of = f"/{self.total}" if self.total is not None else ""
        left = ""
        if self.total and not last and self._before < self.done < self.total:
            each = elapsed / (self.done - self._before)
            left = f", {each * (self.total - self.done):.0f} s left"
        line = f"{self.label}: {self.done}{of} {self.unit} in {elapsed:.0f} s{left} {self.detail}"
        print(line.rstrip(), file=sys.stderr, flush=True)
