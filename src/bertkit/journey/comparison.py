"""What pre-training buys: the same model fine-tuned from pre-trained and from random weights.

Both starts get the same labelled examples, drawn anew for each seed, and the same test set. The
pre-trained one is tuned in one fixed way; the random one gets its own best of a grid of learning
rates and epoch counts, judged on the dev set with the first seed, as `bertkit search` does it. The
fine-tunings run in worker processes of one thread each, and each leaves its result on disk, so an
interrupted comparison goes on where it stopped.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertkit.files import writing
from bertkit.interrupts import interrupting
from bertkit.journey.recipe import Recipe, Tuning
from bertkit.progress import Progress
from bertkit.report.quickstart import Comparison
from bertkit.report.statistics import accuracy_difference, f1_difference, f1_scores
from bertkit.tasks.config import FinetuneConfig, Initialise
from bertkit.workers import parallel_map

MICRO_BATCH = 16
"""Sequences of like length computed at once, so that attention meets little padding."""


@dataclass(frozen=True)
class TaskData:
    """One of the quickstart's tasks.

    Attributes:
        name: "reviews" or "names"; also its folder among the results.
        title: in the table.
        family: the entry of the tasks' registry, "classification" or "tagging".
        data: folder of its train, dev and test files.
        test_items: what is counted in the test set: "reviews" or "sentences".
    """

    name: str
    title: str
    family: str
    data: Path
    sequence_length: int
    test_items: str


@dataclass(frozen=True)
class Run:
    """One fine-tuning of the comparison, and where its result goes."""

    task: TaskData
    checkpoint: Path
    labels: int
    start: Initialise
    tuning: Tuning
    dropout: float
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return (
            f"{self.task.name}-{self.labels}-{self.start}"
            f"-{self.tuning.learning_rate:g}-{self.tuning.epochs}-seed{self.seed}"
        )

    @property
    def model(self) -> Path:
        return self.folder / self.name

    @property
    def test(self) -> Path:
        return self.folder / f"{self.name}.test.json"

    @property
    def config(self) -> FinetuneConfig:
        return FinetuneConfig(
            checkpoint=str(self.checkpoint),
            task=self.task.family,
            output=str(self.model),
            data=str(self.task.data),
            epochs=self.tuning.epochs,
            learning_rate=self.tuning.learning_rate,
            sequence_length=self.task.sequence_length,
            micro_batch_size=MICRO_BATCH,
            dropout=self.dropout,
            max_examples=self.labels,
            initialise=self.start,
            seed=self.seed,
            quiet=True,
        )


@dataclass(frozen=True)
class Cell:
    """One row of the table: a task with so many labels, and how it may be tuned."""

    task: TaskData
    labels: int
    tuning: Tuning
    grid: Sequence[Tuning]
    seeds: int


def compare(
    tasks: Sequence[TaskData],
    recipe: Recipe,
    checkpoint: Path,
    folder: Path,
    labels: tuple[int, int],
    seeds: int,
    test: int,
    workers: int,
    quiet: bool = False,
) -> tuple[list[Comparison], dict[str, Path]]:
    """Fine-tunes everything that the table needs.

    Args:
        recipe: how both starts are fine-tuned.
        labels: few labelled examples, and many.
        seeds: fine-tunings from each start, times what the recipe says.
        test: examples of the test set to score on.

    Returns:
        the table's rows, and for each task the model tuned from the pre-trained weights on the
        most labels.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM; finished fine-tunings stay.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def runs(cell: Cell, start: Initialise, how: Tuning) -> list[Run]:
        return [
            Run(cell.task, checkpoint, cell.labels, start, how, recipe.tuning_dropout, seed, folder)
            for seed in range(cell.seeds)
        ]

    cells = [
        Cell(
            task,
            count,
            recipe.tuning[task.name][size],
            recipe.grid[task.name][size],
            seeds * recipe.seeds[task.name][size],
        )
        for task in tasks
        for size, count in enumerate(labels)
    ]
    pretrained = {cell: runs(cell, "checkpoint", cell.tuning) for cell in cells}
    tried = {cell: [runs(cell, "random", how)[0] for how in cell.grid] for cell in cells}
    total = sum(len(pretrained[cell]) + len(tried[cell]) + cell.seeds - 1 for cell in cells)
    with Progress("fine-tune", total, "runs", quiet) as progress:
        dev = _tune([*_all(pretrained), *_all(tried)], workers, progress)
        random = {
            cell: runs(
                cell,
                "random",
                best_tuning([one.tuning for one in tried[cell]], [dev[one] for one in tried[cell]]),
            )
            for cell in cells
        }
        _tune([one for one in _all(random) if one.seed], workers, progress)
        _score_all([*_all(pretrained), *_all(random)], test, workers)
    rows = [_comparison(cell, random[cell], pretrained[cell]) for cell in cells]
    models = {cell.task.name: pretrained[cell][0].model for cell in cells}  # the last has many
    for path in folder.iterdir():
        if path.is_dir() and path not in models.values():
            shutil.rmtree(path)
    return rows, models


def best_tuning(grid: Sequence[Tuning], dev_scores: Sequence[float]) -> Tuning:
    """The way of fine-tuning with the best score on the dev set; the first of equals."""
    return grid[max(range(len(grid)), key=lambda number: dev_scores[number])]


def _tune(runs: Sequence[Run], workers: int, progress: Progress) -> dict[Run, float]:
    """Fine-tunes, the longest first; returns the scores on the dev set."""
    from bertkit.tasks.registry import get_task
    from bertkit.tasks.runs import fine_tune_all

    order = sorted(runs, key=lambda run: run.labels * run.tuning.epochs, reverse=True)
    configs = [run.config for run in order]
    ended = fine_tune_all(configs, workers, threads=1, done=lambda _: progress.advance(1))
    return {
        run: one.metrics.get(get_task(run.task.family).main, -math.inf)
        for run, one in zip(order, ended, strict=True)
    }


def _score_all(runs: Sequence[Run], test: int, workers: int) -> None:
    """Scores those on the test set that are not yet."""
    waiting = [run for run in runs if not run.test.exists()]
    message = "stopped while scoring; run the same command again to go on"
    with (
        interrupting(signal.SIGINT, signal.SIGTERM, message=message),
        closing(parallel_map(partial(score, test=test), waiting, workers)) as scored,
    ):
        for _ in scored:
            pass


def score(run: Run, test: int) -> None:
    """What a finished fine-tuning gets right of the first `test` test examples: `run.test`."""
    from bertkit.inference.load import load
    from bertkit.tasks.readers import require_file
    from bertkit.tasks.registry import get_task
    from bertkit.tasks.task import Columns

    task = get_task(run.task.family)
    examples = task.read(require_file(task, run.task.data, "test"), Columns())[:test]
    predictions = load(run.model, "auto").answer(examples, run.task.sequence_length).predictions
    result: dict[str, Any] = {
        "items": [
            _score(run.task.family, example, prediction)
            for example, prediction in zip(examples, predictions, strict=True)
        ]
    }
    if run.task.family == "classification":  # what always saying the larger class would score
        counts = Counter(example.label for example in examples)
        result["baseline"] = max(counts.values()) / len(examples)
    with writing(run.test) as partial:
        partial.write_text(json.dumps(result), encoding="utf-8")


def _score(family: str, example: Any, prediction: Any) -> int | list[int]:
    """Right or wrong for a text; true, false and missed entities for a sentence."""
    if family == "classification":
        return int(prediction.label == example.label)
    from bertkit.tasks.metrics import chunks

    gold, found = set(chunks(example.tags)), set(chunks(prediction.tags))
    return [len(gold & found), len(found - gold), len(gold - found)]


def _comparison(cell: Cell, random: Sequence[Run], pretrained: Sequence[Run]) -> Comparison:
    results = [
        [json.loads(one.test.read_text("utf-8")) for one in arm] for arm in (random, pretrained)
    ]
    arms = [[result["items"] for result in arm] for arm in results]
    items = len(arms[0][0])
    if cell.task.family == "classification":
        difference = accuracy_difference(*arms, paired_seeds=True)
        scores = [[sum(seed) / items for seed in arm] for arm in arms]
    else:
        difference = f1_difference(*arms, paired_seeds=True)
        scores = [f1_scores(arm).tolist() for arm in arms]
    return Comparison(
        task=cell.task.title,
        metric="accuracy" if cell.task.family == "classification" else "entity F1",
        labels=cell.labels,
        test_items=f"{items:,} {cell.task.test_items}",
        random=scores[0],
        pretrained=scores[1],
        difference=difference.difference,
        standard_error=difference.standard_error,
        baseline=results[0][0].get("baseline"),
    )


def _all(runs: dict[Cell, list[Run]]) -> list[Run]:
    return [run for of_cell in runs.values() for run in of_cell]
