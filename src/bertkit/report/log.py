"""A run's log as a report reads it: RUN/log.jsonl in, records and curves out.

A line is {"kind": "train" | "dev" | "note", "step": 200, "seconds": 61.2, "tokens": 1638400,
"loss": 5.21, ...}. A line that a crash left half-written is passed over, and so is one that is not
an object. Two lines for one step of one kind (a run that went on after a crash): the last counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertkit.errors import UserError

Record = dict[str, Any]
Point = tuple[float, float]


def read_records(run: Path) -> list[Record]:
    """The records of a run's log, in order.

    Args:
        run: the run's folder, or the log file itself.

    Raises UserError when there is no log.
    """
    path = run / "log.jsonl" if run.is_dir() else run
    if not path.is_file():
        raise UserError(f"there is no training log at {path}; name the folder of a run")
    records: list[Record] = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def curve(records: Iterable[Record], kind: str, metric: str, over: str = "step") -> list[Point]:
    """The points (step, value) of one metric, in order of steps; what is not finite is left out.

    `over` may name another field ("tokens", "seconds") for the horizontal axis.
    """
    points: dict[float, float] = {}
    for record in records:
        numbers = is_number(record.get(metric)) and is_number(record.get(over))
        if record.get("kind") == kind and numbers:
            points[float(record[over])] = float(record[metric])
    return sorted(points.items())


def last(records: Iterable[Record], kind: str, metric: str) -> float | None:
    """The last value of a metric, or None."""
    points = curve(records, kind, metric)
    return points[-1][1] if points else None


def is_number(value: Any) -> bool:
    """Whether a value of a log is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
