"""Scores and predictions written out: a line, a table, a JSONL file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertkit.report.columns import text_table
from bertkit.report.finetuning import metric_name, metric_value


def metrics_line(metrics: dict[str, float]) -> str:
    """Metrics in one line, shares in per cent: "accuracy 92.30 %, Matthews 0.5612"."""
    return ", ".join(f"{metric_name(name)} {metric_value(name, v)}" for name, v in metrics.items())


def scores_table(table: list[dict[str, Any]]) -> str:
    """One line a label, per cent, aligned for a terminal: its name, its scores, its count."""
    names = [name for name in table[0] if name not in ("label", "count")] if table else []
    rows = [["label", *map(metric_name, names), "count"]]
    for row in table:
        scores = (f"{100 * row[name]:.2f}" for name in names)
        rows.append([row["label"], *scores, str(row["count"])])
    return "\n".join(text_table(rows, names=1))


_LINE_ENDS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


def json_line(record: dict[str, Any]) -> str:
    """One line of JSONL; characters stay as they are, but for those that some take as line ends."""
    return json.dumps(record, ensure_ascii=False).translate(_LINE_ENDS) + "\n"


def write_jsonl(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Writes records to a file inside a place that is moved whole, such as `writing` yields."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(map(json_line, records))
