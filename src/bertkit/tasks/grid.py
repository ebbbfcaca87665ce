"""The points of a grid of fine-tunings, what their runs scored, and which is the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertkit.report.columns import text_table
from bertkit.tasks.runs import Ended


@dataclass(frozen=True)
class Point:
    """A point of the grid."""

    batch_size: int
    learning_rate: float
    epochs: float

    @property
    def name(self) -> str:
        return f"batch{self.batch_size}-rate{self.learning_rate:g}-epochs{self.epochs:g}"


@dataclass(frozen=True)
class Attempt:
    """A run at a point.

    Attributes:
        score: on dev; None for a run that diverged or whose score is no number.
        failed: no better than chance.
    """

    point: Point
    seed: int
    ended: Ended
    score: float | None
    failed: bool


@dataclass
class PointResult:
    """The runs at a point of the grid together.

    Attributes:
        runs: how many have ended, failed ones included.
        failed: how many failed.
        mean, sd, median, best: of the scores on dev of all runs that have one; None without any,
            the standard deviation without two.
    """

    batch_size: int
    learning_rate: float
    epochs: float
    runs: int
    failed: int
    mean: float | None
    sd: float | None
    median: float | None
    best: float | None


def attempt(point: Point, seed: int, ended: Ended, metric: str, chance: float) -> Attempt:
    """What a run that ended says by the metric that counts."""
    score = ended.metrics.get(metric)
    return Attempt(point, seed, ended, score, score is None or score <= chance)


def scores(attempts: Sequence[Attempt], point: Point) -> list[float]:
    """Of the runs at a point that have one."""
    return [one.score for one in attempts if one.point == point and one.score is not None]


def mean_score(attempts: Sequence[Attempt], point: Point) -> float:
    """Minus infinity where no run has a score."""
    found = scores(attempts, point)
    return float(np.mean(found)) if found else -np.inf


def best_point(points: Sequence[Point], attempts: Sequence[Attempt]) -> Point:
    """The point with the best mean; the first of equals."""
    return max(points, key=lambda point: mean_score(attempts, point))


def best_attempt(attempts: Sequence[Attempt], point: Point) -> Attempt | None:
    """The best run at a point, the first of equals; None where no run has a score."""
    here = [one for one in attempts if one.point == point]
    scored = [(one.score, -number) for number, one in enumerate(here) if one.score is not None]
    return here[-max(scored)[1]] if scored else None


def summary(point: Point, attempts: Sequence[Attempt]) -> PointResult:
    """The statistics of a point."""
    here = [one for one in attempts if one.point == point]
    found = scores(attempts, point)
    return PointResult(
        batch_size=point.batch_size,
        learning_rate=point.learning_rate,
        epochs=point.epochs,
        runs=len(here),
        failed=sum(one.failed for one in here),
        mean=float(np.mean(found)) if found else None,
        sd=float(np.std(found, ddof=1)) if len(found) > 1 else None,
        median=float(np.median(found)) if found else None,
        best=max(found, default=None),
    )


def grid_lines(points: Sequence[PointResult], best: int) -> list[str]:
    """The grid as lines of text, scores in per cent, the best point marked."""
    head = ("batch", "rate", "epochs", "runs", "failed", "mean", "sd", "median", "best")
    rows = [
        (
            f"{point.batch_size}",
            f"{point.learning_rate:g}",
            f"{point.epochs:g}",
            f"{point.runs}",
            f"{point.failed}",
            *(
                "-" if score is None else f"{100 * score:.2f}"
                for score in (point.mean, point.sd, point.median, point.best)
            ),
        )
        for point in points
    ]
    lines = text_table([head, *rows])
    lines[best + 1] += "  *"
    return lines
