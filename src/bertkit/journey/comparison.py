"""What pre-training buys: the same model fine-tuned from pre-trained and from random weights.

Both starts get the same labelled examples, drawn anew for each seed, and the same test set. The
pre-trained one is tuned in one fixed way; the random one gets its own best of a grid of learning
rates and epoch counts, judged on the dev set with the first seed. The fine-tunings run in worker
processes of one thread each, and each leaves its result on disk, so an interrupted comparison
goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bertkit.errors import Interrupted
from bertkit.files import writing
from bertkit.journey.recipe import Tuning
from bertkit.progress import Progress
from bertkit.report.quickstart import Comparison
from bertkit.report.statistics import accuracy_difference, f1_difference, f1_scores
from bertkit.training.interrupt import InterruptGuard

Start = Literal["random", "checkpoint"]


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
    start: Start
    tuning: Tuning
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
    def result(self) -> Path:
        return self.folder / f"{self.name}.json"


def compare(
    tasks: Sequence[TaskData],
    checkpoint: Path,
    folder: Path,
    labels: Sequence[int],
    seeds: int,
    tuning: dict[str, Tuning],
    grid: Sequence[Tuning],
    test: int,
    workers: int,
    quiet: bool = False,
) -> tuple[list[Comparison], dict[str, Path]]:
    """Fine-tunes everything that the table needs.

    Args:
        labels: numbers of labelled examples, ascending.
        tuning: of the pre-trained model, by the task's name.
        grid: what the random start may choose from.
        test: examples of the test set to score on.

    Returns:
        the table's rows, and for each task the model tuned from the pre-trained weights on the
        most labels.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM; finished fine-tunings stay.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def run(task: TaskData, number: int, start: Start, how: Tuning, seed: int) -> Run:
        return Run(task, checkpoint, number, start, how, seed, folder)

    cells = [(task, number) for task in tasks for number in labels]
    first = [
        *(
            run(task, number, "checkpoint", tuning[task.name], seed)
            for task, number in cells
            for seed in range(seeds)
        ),
        *(run(task, number, "random", how, 0) for task, number in cells for how in grid),
    ]
    total = len(first) + len(cells) * (seeds - 1)
    with Progress("fine-tune", total, "runs", quiet) as progress:
        _run_all(first, test, workers, lambda: progress.advance(1))
        best = {
            (task.name, number): best_tuning(
                grid,
                lambda how, task=task, number=number: _read(  # type: ignore[misc]
                    run(task, number, "random", how, 0)
                )["dev"],
            )
            for task, number in cells
        }
        random = {
            (task.name, number): [
                run(task, number, "random", best[task.name, number], seed) for seed in range(seeds)
            ]
            for task, number in cells
        }
        _run_all(
            [one for runs in random.values() for one in runs if one.seed],
            test,
            workers,
            lambda: progress.advance(1),
        )
    rows = [
        _comparison(
            task,
            number,
            [_read(one) for one in random[task.name, number]],
            [
                _read(run(task, number, "checkpoint", tuning[task.name], seed))
                for seed in range(seeds)
            ],
        )
        for task, number in cells
    ]
    models = {
        task.name: run(task, max(labels), "checkpoint", tuning[task.name], 0).model
        for task in tasks
    }
    for path in folder.iterdir():
        if path.is_dir() and path not in models.values():
            shutil.rmtree(path)
    return rows, models


def best_tuning(grid: Sequence[Tuning], dev_score: Callable[[Tuning], float]) -> Tuning:
    """The way of fine-tuning with the best score on the dev set; the first of equals."""
    return max(grid, key=dev_score)


def fine_tune_and_test(run: Run, test: int) -> None:
    """One fine-tuning: tunes, scores on the test set, writes `run.result`."""
    from bertkit.inference.load import load
    from bertkit.tasks.config import FinetuneConfig
    from bertkit.tasks.finetune import finetune
    from bertkit.tasks.readers import require_file
    from bertkit.tasks.registry import get_task
    from bertkit.tasks.task import Columns

    tuned = finetune(
        FinetuneConfig(
            checkpoint=str(run.checkpoint),
            task=run.task.family,
            output=str(run.model),
            data=str(run.task.data),
            epochs=run.tuning.epochs,
            learning_rate=run.tuning.learning_rate,
            sequence_length=run.task.sequence_length,
            max_examples=run.labels,
            initialise=run.start,
            seed=run.seed,
            quiet=True,
        )
    )
    task = get_task(run.task.family)
    examples = task.read(require_file(task, run.task.data, "test"), Columns())[:test]
    predictions = load(run.model, "auto").answer(examples, run.task.sequence_length).predictions
    result = {
        "dev": tuned.metrics["f1" if run.task.family == "tagging" else "accuracy"],
        "seconds": tuned.seconds,
        "tuning": asdict(run.tuning),
        "test": [
            _score(run.task.family, example, prediction)
            for example, prediction in zip(examples, predictions, strict=True)
        ],
    }
    with writing(run.result) as partial:
        partial.write_text(json.dumps(result), encoding="utf-8")


def _score(family: str, example: Any, prediction: Any) -> int | list[int]:
    """Right or wrong for a text; true, false and missed entities for a sentence."""
    if family == "classification":
        return int(prediction.label == example.label)
    from bertkit.tasks.metrics import chunks

    gold, found = set(chunks(example.tags)), set(chunks(prediction.tags))
    return [len(gold & found), len(found - gold), len(gold - found)]


def _comparison(
    task: TaskData,
    labels: int,
    random: list[dict[str, Any]],
    pretrained: list[dict[str, Any]],
) -> Comparison:
    arms = [[result["test"] for result in arm] for arm in (random, pretrained)]
    items = len(arms[0][0])
    if task.family == "classification":
        difference = accuracy_difference(*arms, paired_seeds=True)
        scores = [[sum(seed) / items for seed in arm] for arm in arms]
    else:
        difference = f1_difference(*arms, paired_seeds=True)
        scores = [f1_scores(arm).tolist() for arm in arms]
    return Comparison(
        task=task.title,
        metric="accuracy" if task.family == "classification" else "entity F1",
        labels=labels,
        test_items=f"{items:,} {task.test_items}",
        random=scores[0],
        pretrained=scores[1],
        difference=difference.difference,
        standard_error=difference.standard_error,
    )


def _read(run: Run) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run.result.read_text(encoding="utf-8"))
    return result


def _run_all(runs: Sequence[Run], test: int, workers: int, done: Callable[[], None]) -> None:
    """Does the runs that have no result yet, `workers` at a time."""
    waiting = [run for run in runs if not run.result.exists()]
    for _ in range(len(runs) - len(waiting)):
        done()
    if not waiting:
        return
    # The longest first, so that no worker is left alone with one at the end.
    waiting.sort(key=lambda run: run.labels * run.tuning.epochs, reverse=True)
    with (
        InterruptGuard() as guard,
        ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), initializer=_start_worker
        ) as pool,
    ):
        pending = {pool.submit(fine_tune_and_test, run, test) for run in waiting}
        while pending:
            finished, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            if guard.received is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise Interrupted(
                    "stopped between fine-tunings, the finished ones are saved; "
                    "run the same command again to go on",
                    guard.received,
                )
            for future in finished:
                future.result()
                done()


def _start_worker() -> None:
    """One thread each, and Ctrl-C is the parent's to handle."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
