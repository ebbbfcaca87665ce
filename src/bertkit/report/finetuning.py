"""The report of a fine-tuning run: RUN's files in, RUN/report.html out.

It reads what the run has written: metrics.json (scores), predictions.jsonl (answers on dev),
log.jsonl (curves) and finetune.yaml. What is not there is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertkit.report.log import Record, is_number, read_records
from bertkit.report.outcome import outcome_sections, read_predictions
from bertkit.report.page import (
    Html,
    Section,
    charts,
    count,
    decimals,
    duration,
    facts,
    percent,
    table,
    write_report,
)
from bertkit.report.pretraining import Metric, configuration, metric_figure, notes

CONFIGURATION = "finetune.yaml"
METRICS = "metrics.json"
DATA = "data.json"
PREDICTIONS = "predictions.jsonl"
REPORT = "report.html"

NAMES = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "exact_match": "exact match",
    "rmse": "RMSE",
    "matthews": "Matthews",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
"""Keys of metrics -> what they are called; others lose their underscores."""
NO_SHARES = frozenset({"matthews", "pearson", "spearman", "rmse", "loss", "learning_rate"})
_NOT_METRICS = frozenset(
    {
        *("kind", "step", "seconds", "tokens", "learning_rate", "gradient_norm"),
        *("tokens_per_second", "waiting", "padding"),
    }
)


def write_finetuning_report(run: Path, place: Path | None = None) -> Path:
    """Writes report.html of a finished run; returns its path.

    Args:
        place: the folder that the model is in, and is called by, where it is not the run's own.

    Raises UserError when the run's folder has no log.
    """
    place = place or run
    records = read_records(run)
    summary = read_summary(run)
    sections = [
        Section("In numbers", [facts(_numbers(summary))]),
        Section("Each label", _label_table(summary.get("table", []))),
        *outcome_sections(read_predictions(run / PREDICTIONS)),
        Section("Data", _data(read_json(run / DATA))),
        Section("Learning", [charts(*learning_figures(records))]),
        Section("Notes of the run", [facts([("", note)]) for note in notes(records)]),
        Section("Configuration", configuration(run, CONFIGURATION)),
    ]
    return write_report(
        place / REPORT,
        f"Fine-tuning: {place.resolve().name}",
        f"One run on the task {summary.get('task', '?')}. Scores, confusions and errors are those "
        "on the dev set.",
        sections,
    )


def write_evaluation_report(
    path: Path, title: str, lead: str, summary: dict[str, Any], predictions: Sequence[Record]
) -> Path:
    """Writes the page of one evaluation.

    Args:
        summary: "metrics" and "table" as in metrics.json.
        predictions: lines of the prediction file.
    """
    sections = [
        Section("In numbers", [facts(_numbers(summary))]),
        Section("Each label", _label_table(summary.get("table", []))),
        *outcome_sections(predictions),
    ]
    return write_report(path, title, lead, sections)


def read_summary(run: Path) -> dict[str, Any]:
    """What metrics.json says, or nothing."""
    return read_json(run / METRICS)


def metric_name(key: str) -> str:
    return NAMES.get(key, key.replace("_", " "))


def metric_value(key: str, value: float) -> str:
    """A metric as people read it: shares in per cent, others as they are."""
    return percent(value, 2) if is_share(key) else decimals(value, 4)


def is_share(key: str) -> bool:
    """Whether a metric is a share: correlations, errors and thresholds are none."""
    return key.split("-")[0] not in NO_SHARES and not key.endswith("_thresh")


def learning_figures(records: Sequence[Record]) -> list[Html]:
    """Loss and rate of the training, and every metric that was scored more than once."""
    keys = ["loss"]
    for record in records:
        if record.get("kind") in ("train", "dev"):
            keys += [
                key
                for key, value in record.items()
                if is_number(value) and key not in _NOT_METRICS | set(keys)
            ]
    keys = [key for key in keys if not key.endswith("_loss")] + ["learning_rate"]
    figures = []
    for key in keys:
        points = sum(is_number(record.get(key)) for record in records)
        if points > 1:
            shares = is_share(key)
            title = metric_name(key)[:1].upper() + metric_name(key)[1:]
            figures.append(
                metric_figure(
                    records, Metric(key, title, percent=shares, from_zero=key == "learning_rate")
                )
            )
    return figures


def _numbers(summary: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        (metric_name(key), metric_value(key, value))
        for key, value in summary.get("metrics", {}).items()
        if is_number(value)
    ]
    for key, name, say in (
        ("examples", "Training examples", count),
        ("dev_examples", "Dev examples", count),
        ("truncated", "Training examples cut to the sequence length", count),
        ("steps", "Steps", count),
        ("seconds", "Time", duration),
    ):
        if is_number(summary.get(key)):
            pairs.append((name, say(summary[key])))
    return pairs


def _label_table(rows: Sequence[dict[str, Any]]) -> list[Html]:
    if not rows:
        return []
    columns = [key for key in rows[0] if key != "label"]
    body = [
        [
            str(row["label"]),
            *(count(row[key]) if key == "count" else f"{100 * row[key]:.2f}" for key in columns),
        ]
        for row in rows
    ]
    header = ["Label", *(metric_name(key) for key in columns)]
    return [table(header, body, numbers=range(1, len(header)), caption="In per cent.")]


def _data(data: dict[str, Any]) -> list[Html]:
    """Counts, lengths and duplicates, as they were said before training."""
    pairs = [
        (name, count(data[key]))
        for key, name in (
            ("median", "Tokens of an example, median"),
            ("percentile_95", "95 % have up to"),
            ("longest", "The longest has"),
            ("truncated", "Cut to the sequence length"),
            ("empty", "Training texts that are empty"),
            ("repeated", "Training examples that repeat another"),
            ("shared", "Dev examples that stand in the training data too"),
        )
        if is_number(data.get(key))
    ]
    counts, dev = data.get("counts") or {}, data.get("dev_counts") or {}
    rows = [
        [str(label), count(counts.get(label, 0)), count(dev.get(label, 0))]
        for label in {**counts, **dev}
    ]
    pieces = [facts(pairs)] if pairs else []
    return pieces + ([table(["Label", "Training", "Dev"], rows, numbers=(1, 2))] if rows else [])


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or an empty one."""
    if not path.is_file():
        return {}
    values = json.loads(path.read_text(encoding="utf-8"))
    return values if isinstance(values, dict) else {}
