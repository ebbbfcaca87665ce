"""Two sides that take turns: processes that hold their work ready and time steps when told to.

A side answers each number that it reads on standard input with so many timed steps, so that both
sides see the same busy and quiet moments of a machine (A B A B ...).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Timing = tuple[float, float]
"""Seconds, and seconds of processor time."""


def serve(step: Callable[[], Any], ready: dict[str, Any]) -> None:
    """A side's process: says that it is ready, then times steps until its input closes."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            began, began_cpu = time.perf_counter(), time.process_time()
            step()
            seconds.append((time.perf_counter() - began, time.process_time() - began_cpu))
        print(json.dumps(seconds), flush=True)


class Side:
    """A process that serves, as its caller sees it.

    Args:
        name: of the side, for messages.
        command: what starts it.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ready: dict[str, Any] = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.process.wait()}")
        return json.loads(line)

    def time(self, steps: int) -> list[Timing]:
        """Times so many steps, the next ones."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return [(wall, busy) for wall, busy in self._answer()]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
