"""The run's log: one JSON object a line for programs, and TensorBoard's event files for eyes.

    {"kind": "train", "step": 200, "seconds": 61.2, "tokens": 1638400, "loss": 5.21, ...}

Both are cut back to the restart point when a run continues, so no step is told twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertkit.files import writing
from bertkit.report.log import Record, read_records

LOG_NAME = "log.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
_NOT_PLOTTED = frozenset({"kind", "step", "seconds", "tokens"})


class RunLog:
    """Appends to `run/log.jsonl` and `run/tensorboard`; steps after `resumed_from` are dropped."""

    def __init__(self, run: Path, resumed_from: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        run.mkdir(parents=True, exist_ok=True)
        self._path = run / LOG_NAME
        kept = [record for record in read_log(run) if record.get("step", 0) <= resumed_from]
        if resumed_from == 0:
            kept = []
        with writing(self._path) as partial:
            partial.write_text("".join(map(_line, kept)), encoding="utf-8")
        self.records = kept
        self._file = self._path.open("a", encoding="utf-8")
        self._board = SummaryWriter(run / TENSORBOARD_FOLDER, purge_step=resumed_from + 1)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Writes one record; numbers other than seconds and tokens are plotted as `kind/name`."""
        record = {"kind": kind, "step": step, **values}
        if kind == "dev" and any(r["kind"] == kind and r["step"] == step for r in self.records):
            return  # evaluated again, by a run that was stopped at its end
        self.records.append(record)
        self._file.write(_line(record))
        self._file.flush()
        for name, value in values.items():
            if name not in _NOT_PLOTTED and isinstance(value, (int, float)):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def newest(self, name: str) -> float:
        """The largest value that earlier parts of this run have logged for a running total."""
        return float(max((record.get(name, 0.0) for record in self.records), default=0.0))

    def close(self) -> None:
        self._file.close()
        self._board.close()


def read_log(run: Path) -> list[Record]:
    """The records of a run's log so far; none for a run that has not begun."""
    return read_records(run) if (run / LOG_NAME).exists() else []


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
