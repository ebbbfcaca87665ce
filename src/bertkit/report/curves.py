"""A run's curves as a short table for a terminal: the log's records in, aligned lines out."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.report.columns import text_table
from bertkit.report.log import Record, curve

MOST_ROWS = 8
"""So many steps are shown, evenly apart, the last among them."""

_COLUMNS = (
    ("loss", "loss", "{:.3f}"),
    ("mlm_accuracy", "masked LM", "{:.1%}"),
    ("ltr_accuracy", "next token", "{:.1%}"),
    ("nsp_accuracy", "next sentence", "{:.1%}"),
    ("sop_accuracy", "sentence order", "{:.1%}"),
    ("accuracy", "accuracy", "{:.1%}"),
    ("learning_rate", "rate", "{:.2e}"),
    ("gradient_norm", "gradient", "{:.2f}"),
    ("padding", "padding", "{:.1%}"),
    ("tokens_per_second", "tokens/s", "{:,.0f}"),
    ("waiting", "waiting", "{:.1%}"),
)


def run_table(records: Sequence[Record], most: int = MOST_ROWS) -> str:
    """Training at a few steps, and below it held-out scores at a few; empty without records."""
    blocks = []
    for kind, title in (("train", "training"), ("dev", "held-out")):
        curves = {key: dict(curve(records, kind, key)) for key, _, _ in _COLUMNS}
        shown = [column for column in _COLUMNS if curves[column[0]]]
        steps = sorted({step for points in curves.values() for step in points})
        if not steps:
            continue
        if len(steps) > most:
            steps = [steps[round(k * (len(steps) - 1) / (most - 1))] for k in range(most)]
        rows = [[title, *(name for _, name, _ in shown)]]
        for step in steps:
            values = [(form, curves[key].get(step)) for key, _, form in shown]
            cells = ["" if value is None else form.format(value) for form, value in values]
            rows.append([f"{step:,.0f}", *cells])
        blocks += text_table(rows)
    return "\n".join(blocks)
