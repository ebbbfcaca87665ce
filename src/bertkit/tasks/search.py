"""`bertkit search`: a checkpoint, labelled examples and a grid in, the best tuned model out.

    OUT/config.json, model.safetensors, vocab.txt, ...   the best model, as `finetune` writes it
    OUT/results.json     the points of the grid, every run, and what a failed one is
    OUT/search.yaml      the configuration; the same command continues, one with a larger grid or
                         more seeds adds to what is there
    OUT/runs/NAME/       a run's log, configuration and predictions; of the best also the weights
    OUT/runs/NAME.json   how it ended

Every point of the grid (batch size, learning rate, epochs: the paper's appendix A.3) is tried with
`grid_seeds` seeds. The one with the best mean on dev gets the rest of `seeds`, and the best of its
runs is kept, as the paper did with random restarts (section 4.1).

A run has failed when its score on dev is no better than that of one answer for all examples, such
as the most frequent label, or when its loss or its score is no number: the paper met such runs
with its large model on small data sets.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from bertkit import config as configurations
from bertkit.errors import UserError
from bertkit.files import write_json, writing, writing_into
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.kinds import WEIGHTS, weight_file, weight_parts
from bertkit.progress import Progress
from bertkit.report.card import CARD, write_card
from bertkit.report.finetuning import REPORT, write_finetuning_report
from bertkit.tasks.config import FinetuneConfig, SearchConfig, TuningOptions
from bertkit.tasks.data import read_data, same_inputs
from bertkit.tasks.finetune import MAY_CHANGE
from bertkit.tasks.grid import (
    Attempt,
    Point,
    PointResult,
    attempt,
    best_attempt,
    best_point,
    grid_lines,
    mean_score,
    summary,
)
from bertkit.tasks.options import (
    FEATURES_RATE,
    check,
    check_task,
    task_options,
    training_source,
)
from bertkit.tasks.own_data import resolve
from bertkit.tasks.registry import get_task
from bertkit.tasks.runs import Ended, fine_tune_all, forget, how_it_ended, threads_each
from bertkit.tasks.start import load_model
from bertkit.tasks.tables import metrics_line
from bertkit.tasks.task import Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.claim import claim

NOT_PUBLISHED = frozenset({"log.jsonl", "inputs.json", CARD, REPORT})
"""Files of a run that are not about the tuned model, or call it by the run's name."""

PAPERS_RATES = [5e-5, 3e-5, 2e-5]
"""The learning rates of its grid (appendix A.3)."""

_SHARED = [field.name for field in fields(TuningOptions)]
_FOUND = ("task", "data", "train", "text", "pair", "label")
"""What may be found out from the data."""
_OWN = frozenset(field.name for field in fields(SearchConfig)) - frozenset(_SHARED)


@dataclass
class SearchResult:
    """What a search found.

    Attributes:
        output: the best model's folder.
        metric: decides on dev.
        chance: what one answer for all examples scores at best; a run that is no better failed.
        points: of the grid, in its order.
        best_point: number of the best in `points`.
        best_run: folder of the run that is kept, within `output`.
        metrics: its scores on dev.
        runs: each run: its point, seed, score, metrics, whether it failed, steps, seconds, problem.
        seconds: of training, all runs together.
    """

    output: str
    task: str
    metric: str
    chance: float
    points: list[PointResult]
    best_point: int
    best_run: str
    metrics: dict[str, float]
    runs: list[dict[str, Any]]
    seconds: float

    def __str__(self) -> str:
        failed = sum(point.failed for point in self.points)
        return "\n".join(
            [
                f"{self.task}: {self.metric} on dev times 100, {len(self.runs)} runs, "
                f"{self.seconds / 60:.1f} minutes of training",
                *grid_lines(self.points, self.best_point),
                f"failed: {failed} of {len(self.runs)} runs (diverged, or no better than "
                f"{100 * self.chance:.2f}, which one answer for all scores)",
                f"kept: {self.output}/{self.best_run}, {metrics_line(self.metrics)}",
                f"next: bertkit predict {self.output} FILE",
            ]
        )


def search(config: SearchConfig) -> SearchResult:
    """Tries the grid, or goes on with it, and leaves the best model in `config.output`.

    Raises:
        UserError: what `finetune` raises; a grid without points; no run has a score.
        Interrupted: after Ctrl-C or SIGTERM; the same call continues.
    """
    config = replace(config, learning_rate=peak_rates(config))
    points = grid_points(config)
    for point in points:
        check(config_of(config, point, config.seed))
    count = max(config.seeds, config.grid_seeds)
    seeds = range(config.seed, config.seed + count)
    config, task, chance = _begin(config, points[0], seeds)
    out = Path(config.output)
    tried: list[Attempt] = []
    total = len(points) * config.grid_seeds + count - config.grid_seeds
    with Progress("search", total, "runs", config.quiet) as progress:

        def run(wanted: Sequence[tuple[Point, int]]) -> None:
            def done(ended: Ended) -> None:
                point, seed = next(places)
                tried.append(attempt(point, seed, ended, task.main, chance))
                _drop_weights(tried, config.grid_seeds)
                best = max((one.score for one in tried if one.score is not None), default=None)
                progress.advance(1, "" if best is None else f"{task.main} {100 * best:.2f} %")

            places = iter(wanted)
            configs = [config_of(config, point, seed) for point, seed in wanted]
            fine_tune_all(configs, config.workers, config.engine, done=done)

        run([(point, seed) for point in points for seed in seeds[: config.grid_seeds]])
        chosen = best_point(points, tried)
        run([(chosen, seed) for seed in seeds[config.grid_seeds :]])
        kept = best_attempt(tried, chosen)
        if kept is None:
            raise UserError(
                f"no run has a score on dev ({tried[0].ended.problem or 'none is a number'}); "
                "search again with lower --learning-rate"
            )
        if not Path(kept.ended.output, WEIGHTS).is_file():  # a smaller search chose another
            again = _again(config, kept, task.main, chance)
            tried[tried.index(kept)] = kept = again
    tried.sort(key=lambda one: points.index(one.point))
    result = SearchResult(
        output=str(out),
        task=task.name,
        metric=task.main,
        chance=chance,
        points=[summary(point, tried) for point in points],
        best_point=points.index(chosen),
        best_run=os.path.relpath(kept.ended.output, out),
        metrics=kept.ended.metrics,
        runs=[_as_row(one) for one in tried],
        seconds=round(sum(one.ended.seconds for one in tried), 3),
    )
    _keep_only(kept, out / "runs")
    _publish(Path(kept.ended.output), out)
    with writing(out / "results.json") as partial:
        write_json(partial, asdict(result))
    return result


def _again(config: SearchConfig, lost: Attempt, metric: str, chance: float) -> Attempt:
    """Trains a run once more, whose weights a smaller search had dropped, on as many threads."""
    threads = threads_each(config.engine, config.workers)
    forget(lost.ended.output)
    [ended] = fine_tune_all([config_of(config, lost.point, lost.seed)], threads=threads)
    if not Path(ended.output, WEIGHTS).is_file():
        raise UserError(
            f"{ended.output} was the best run and has failed now ({ended.problem}): this machine "
            "computes otherwise than before; search again with lower --learning-rate"
        )
    return attempt(lost.point, lost.seed, ended, metric, chance)


def _begin(
    config: SearchConfig, point: Point, seeds: Sequence[int]
) -> tuple[SearchConfig, Task, float]:
    """Starts or continues the search in its folder, once nothing is wrong with its runs.

    Returns:
        The configuration with what was found out from the data, the task, and what chance scores.
    """
    any_config = resolve(config_of(config, point, config.seed))
    config = replace(config, **{name: getattr(any_config, name) for name in _FOUND})
    task = get_task(str(config.task))
    check_task(config, task)
    data = read_data(any_config, task)
    # for the complaints of all these, before anything is written
    for seed in seeds[1:] if config.max_examples is not None else ():
        read_data(replace(any_config, seed=seed, quiet=True), task)
    start = checkpoint_path(config.checkpoint)
    model, _ = load_model(any_config, task, data, start)
    if config.batch_tokens is not None:
        options = task_options(any_config)
        made = task.features(data.train, Tokenizer.load(start), data.labels, options)
        training_source(any_config, task, made, model)
    chance = score_of_chance(task, data.dev, data.labels)
    out = Path(config.output)
    claim(out, config, "search.yaml", (MAY_CHANGE - {"evaluate_steps"}) | _OWN)
    configurations.save(config, out / "search.yaml")
    same_inputs(out, [*weight_parts(weight_file(start)), *data.files])
    return config, task, chance


def grid_points(config: SearchConfig) -> list[Point]:
    """The points in the order of the options' values; none twice."""
    for option, count in (("seeds", config.seeds), ("grid-seeds", config.grid_seeds)):
        if count < 1:
            raise UserError(f"--{option} is {count}; give 1 or more")
    if config.workers is not None and config.workers < 1:
        raise UserError(f"--workers is {config.workers}; give 1 or more")
    for option in ("batch_size", "epochs"):
        if not getattr(config, option):
            raise UserError(f"--{option.replace('_', '-')} has no values; give one or more")
    # steps of --batch-tokens know no batch size, so that the first may stand for all
    sizes = config.batch_size if config.batch_tokens is None else config.batch_size[:1]
    values = product(sizes, peak_rates(config), config.epochs)
    return list(dict.fromkeys(Point(*value) for value in values))


def peak_rates(config: SearchConfig) -> list[float]:
    """The learning rates given, or those for what is trained."""
    return config.learning_rate or ([FEATURES_RATE] if config.features else PAPERS_RATES)


def config_of(config: SearchConfig, point: Point, seed: int) -> FinetuneConfig:
    """One run of the search. All share the dev split, whatever their seeds."""
    shared = {name: getattr(config, name) for name in _SHARED}
    shared |= {
        "output": str(Path(config.output, "runs", f"{point.name}-seed{seed}")),
        "seed": seed,
        "split_seed": config.seed if config.split_seed is None else config.split_seed,
    }
    return FinetuneConfig(**shared, **asdict(point))


def score_of_chance(task: Task, dev: Sequence[Any], labels: Sequence[str]) -> float:
    """What the best of one answer for all dev examples scores."""
    if task.blind is None:
        return 0.0
    return max(
        (task.metric(dev, answers).metrics[task.main] for answers in task.blind(dev, labels)),
        default=0.0,
    )


def _drop_weights(tried: Sequence[Attempt], grid_seeds: int) -> None:
    """Removes the weights that cannot be the search's result any more, and all restart points."""
    points = list(dict.fromkeys(one.point for one in tried))
    means: dict[Point, float] = {}
    for point in points:
        here = [one for one in tried if one.point == point][:grid_seeds]
        if len(here) == grid_seeds:
            means[point] = mean_score(here, point)
    leader = max(means, key=lambda point: means[point]) if means else None
    beaten = {point for point in means if point != leader}
    kept = [best_attempt(tried, point) for point in points if point not in beaten]
    for one in tried:
        folder = Path(one.ended.output)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        if one not in kept:
            (folder / WEIGHTS).unlink(missing_ok=True)


def _keep_only(kept: Attempt, runs: Path) -> None:
    """Removes restart points and weights of all runs that have ended but the one that is kept,
    also of those that a larger search has left there."""
    for folder in runs.iterdir():
        if folder.is_dir() and how_it_ended(str(folder)) is not None:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
            if folder != Path(kept.ended.output):
                (folder / WEIGHTS).unlink(missing_ok=True)


def _publish(run: Path, out: Path) -> None:
    """Puts the files of a run where the search's result belongs, as links where that works."""
    with writing_into(out) as partial:
        for path in sorted(run.iterdir()):
            if path.is_file() and path.name not in NOT_PUBLISHED:
                try:
                    os.link(path, partial / path.name)
                except OSError:
                    shutil.copy2(path, partial / path.name)
    write_finetuning_report(run, out)
    write_card(run, out)


def _as_row(one: Attempt) -> dict[str, Any]:
    ended = {name: value for name, value in asdict(one.ended).items() if name != "output"}
    return {
        **asdict(one.point),
        "seed": one.seed,
        "score": one.score,
        "failed": one.failed,
        **ended,
    }
