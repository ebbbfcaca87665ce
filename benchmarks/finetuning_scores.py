"""The scores of `finetuning.py`: a line of JSON for each whole run in, one table out."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from finetuning_tasks import TASKS

from bertkit.speed.roofline import processor

OURS = "bertkit"
ALLOWANCE = 0.005
"""How much lower a mean may be, where the standard deviations are smaller."""


def read_results(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """The runs done so far; a line that a stop left half-written is passed over."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["task"], one["seed"], one["side"]] = one
    return found


def report(tasks: Sequence[str], peer: str, results: list[dict[str, Any]]) -> None:
    """The table of scores times 100, and one line of JSON."""

    def of(task: str, side: str) -> list[dict[str, Any]]:
        return [one for one in results if (one["task"], one["side"]) == (task, side)]

    def said(scores: Sequence[float]) -> str:
        if len(scores) == 1:
            return f"{100 * scores[0]:.2f}"
        mean, sd = statistics.fmean(scores), statistics.stdev(scores)
        return f"{100 * mean:.2f} ± {100 * sd:.2f} ({100 * max(scores):.2f})"

    print(f"dev scores times 100, mean ± sd (best); judge: transformers, {peer}")
    print("runs: of bertkit/of the judge; one run has no sd")
    head = f"{'task':<12}{'metric':<10}{'runs':>5}  {'bertkit':<23}{'judge':<23}"
    print(head + f"{'difference':>10}{'allowed':>9}{'s/epoch':>9}{'judge':>8}")
    rows = []
    for task in tasks:
        ours, theirs = of(task, OURS), of(task, peer)
        setup = TASKS[task]
        seconds = [
            statistics.fmean(one["seconds"] / setup.epochs for one in s) for s in (ours, theirs)
        ]
        for metric in setup.metrics:
            scores = [[one["metrics"][metric] for one in side] for side in (ours, theirs)]
            allowed = max(ALLOWANCE, pooled_deviation(scores))
            difference = statistics.fmean(scores[0]) - statistics.fmean(scores[1])
            fine = difference >= -allowed
            rows.append(
                {"task": task, "metric": metric, "bertkit": scores[0], "judge": scores[1]}
                | {"difference": difference, "allowed": -allowed, "fine": fine}
                | {"epoch_seconds": seconds}
            )
            print(
                f"{task:<12}{metric:<10}{f'{len(ours)}/{len(theirs)}':>5}  {said(scores[0]):<23}"
                f"{said(scores[1]):<23}{100 * difference:>+10.2f}{-100 * allowed:>9.2f}"
                f"{seconds[0]:>9.1f}{seconds[1]:>8.1f}{'' if fine else '   TOO LOW'}"
            )
    print(json.dumps({"benchmark": "finetuning scores", "processor": processor(), "rows": rows}))


def pooled_deviation(samples: Sequence[Sequence[float]]) -> float:
    """Of samples of any sizes; one of a single number tells nothing of it."""
    squares = sum(statistics.variance(s) * (len(s) - 1) for s in samples if len(s) > 1)
    freedom = sum(len(s) - 1 for s in samples)
    return math.sqrt(squares / freedom) if freedom else 0.0
