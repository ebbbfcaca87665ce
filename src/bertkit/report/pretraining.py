"""The report of a pre-training run: RUN/log.jsonl and RUN/pretrain.yaml in, RUN/report.html out.

It can be written while the run goes on. What the log lacks is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertkit.report.chart import Chart, Series, figure
from bertkit.report.guesses import moments, read_sentences, sentence_cards
from bertkit.report.log import Record, curve, last, read_records
from bertkit.report.page import (
    Html,
    Section,
    charts,
    command,
    count,
    duration,
    facts,
    paragraph,
    percent,
    write_report,
)

CONFIGURATION = "pretrain.yaml"


@dataclass(frozen=True)
class Metric:
    """What the report draws of a log's key."""

    key: str
    title: str
    percent: bool = False
    from_zero: bool = False


LEARNING = (
    Metric("mlm_loss", "Masked LM loss (nats a masked token)"),
    Metric("mlm_accuracy", "Masked tokens guessed right", percent=True, from_zero=True),
    Metric("ltr_loss", "Left-to-right loss (nats a token)"),
    Metric("ltr_accuracy", "Next tokens guessed right", percent=True, from_zero=True),
    Metric("nsp_loss", "Next sentence loss (nats a pair)"),
    Metric(
        "nsp_accuracy",
        "Next sentence answered right",
        percent=True,
    ),
    Metric("sop_loss", "Sentence order loss (nats a pair)"),
    Metric("sop_accuracy", "Sentence order answered right", percent=True),
    Metric("loss", "Loss (sum of the objectives)"),
)
PERPLEXITIES = (
    Metric("mlm_perplexity", "Perplexity of masked tokens"),
    Metric("ltr_perplexity", "Perplexity of next tokens"),
)
"""Told as numbers: their curves, from tens of thousands downwards, are those of the losses."""
MACHINERY = (
    Metric("learning_rate", "Learning rate", from_zero=True),
    Metric("gradient_norm", "Norm of the gradient before clipping", from_zero=True),
    Metric("tokens_per_second", "Tokens a second", from_zero=True),
    Metric("waiting", "Time in which the next batches were not ready", True, from_zero=True),
    Metric("padding", "Padding among the places that attention computes", True, from_zero=True),
)


def write_pretraining_report(run: Path) -> Path:
    """Writes RUN/report.html from the run's log, finished or not; returns its path.

    Raises UserError when the folder has no log.
    """
    records = read_records(run)
    sections = [
        Section("In numbers", [facts(summary(records))]),
        Section("What it learned", [learning_charts(records)]),
        Section("Held-out sentences", sentence_cards(read_sentences(run), moments(records))),
        Section("How it ran", [charts(*(metric_figure(records, one) for one in MACHINERY))]),
        Section("Notes of the run", [paragraph(note) for note in notes(records)]),
        Section("Configuration", configuration(run, CONFIGURATION)),
    ]
    return write_report(
        run / "report.html",
        f"Pre-training: {run.resolve().name}",
        "Curves of one pre-training run, on its training text and on held-out documents.",
        sections,
    )


def learning_charts(records: Sequence[Record]) -> Html:
    """The charts of what was learned; the sum of the losses only where it has two parts."""
    metrics = [one for one in LEARNING if one.key != "loss" or len(_losses(records)) != 1]
    return charts(*(metric_figure(records, one) for one in metrics))


def metric_figure(records: Sequence[Record], metric: Metric) -> Html:
    """One metric over the steps, in training and held-out; nothing where the log lacks it."""
    training = curve(records, "train", metric.key)
    held_out = curve(records, "dev", metric.key)
    return figure(
        Chart(
            metric.title,
            [Series("training", training), Series("held-out", held_out, markers=True)],
            percent=metric.percent,
            from_zero=metric.from_zero,
        )
    )


def summary(records: Sequence[Record]) -> list[tuple[str, str]]:
    """The run in a few numbers, as far as the log has them."""
    pairs: list[tuple[str, str]] = []
    for key, name, say in (
        ("step", "Steps", count),
        ("tokens", "Tokens seen", count),
        ("seconds", "Time", duration),
    ):
        values = [
            record[key]
            for record in records
            if record.get("kind") in ("train", "dev") and key in record
        ]
        if values:
            pairs.append((name, say(max(values))))
    for metric in (*LEARNING, *PERPLEXITIES):
        for kind, where in (("dev", "held-out"), ("train", "training")):
            value = last(records, kind, metric.key)
            if value is not None:
                digits = 1 if metric in PERPLEXITIES else 3
                text = percent(value) if metric.percent else f"{value:.{digits}f}"
                pairs.append((metric.title, f"{text} ({where})"))
                break
    return pairs


def notes(records: Sequence[Record]) -> list[str]:
    """What the run noted in words: restarts, changes of the machine."""
    found: list[str] = []
    for record in records:
        if record.get("kind") == "note":
            words = [
                str(value)
                for key, value in record.items()
                if key not in ("kind", "step", "seconds")
            ]
            found.append(f"Step {record.get('step', '?')}: {', '.join(words)}")
    return found


def configuration(run: Path, name: str) -> list[Html]:
    """The saved configuration of that name, as it is, where there is one."""
    path = run / name
    if not path.is_file():
        return []
    return [command(path.read_text(encoding="utf-8", errors="replace").strip())]


def _losses(records: Sequence[Record]) -> set[str]:
    keys: set[str] = set()
    for record in records:
        keys |= {key for key in record if key.endswith("_loss")}
    return keys
