"""Comparing two ways of training: scores over seeds in, a difference and its standard error out.

Comes in: what two arms (random initialisation, pre-training) got right on the same test set, each
with a few seeds. Goes out: the difference of their mean scores, and a standard error that answers
"would it be the same with other seeds and another test set?".

The score of seed s on item i is taken as  mean + seed effect + item effect + residual  (a crossed
design). The variance of a difference of means over S seeds and N items is then

    items:     variance over items of the difference of seed means, / N    (holds residual / SN)
    seeds:     for each arm, variance over seeds of the scores, / S        (holds residual / SN)
    residual:  counted twice above, so taken away once

and never less than the part of the items. Both arms see the same items, so an item that is hard
for both adds nothing. With three seeds the part of the seeds is itself a rough estimate: read two
standard errors as a hint and four as a finding. With one seed it is unknown and counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """A difference of mean scores, second arm minus first, with its standard error."""

    difference: float
    standard_error: float

    @property
    def in_standard_errors(self) -> float:
        """The difference in units of its standard error; infinite where that is 0."""
        if self.standard_error == 0:
            return 0.0 if self.difference == 0 else float(np.copysign(np.inf, self.difference))
        return self.difference / self.standard_error


def mean_and_sd(scores: Sequence[float]) -> tuple[float, float]:
    """Mean over seeds, and the standard deviation between seeds (0 for a single seed)."""
    return float(np.mean(scores)), float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0


def f1_scores(counts: ArrayLike) -> Floats:
    """Entity-level F1, one for each leading index.

    Args:
        counts: [..., sentences, 3]: true positives, false positives, false negatives of each
            sentence. F1 is of their sums (micro-average, as conlleval); 0 where all are 0.
    """
    return _f1(np.asarray(counts, dtype=np.float64).sum(axis=-2))


def accuracy_difference(
    first: ArrayLike, second: ArrayLike, *, paired_seeds: bool = False
) -> Difference:
    """Second arm's accuracy minus the first's.

    Args:
        first, second: [seeds, items], whether each item was right, 0 or 1 (or any score that is
            averaged). The items are the same in the same order; the arms may differ in seeds.
        paired_seeds: the k-th seeds of both arms share what the seed decides (the training
            examples drawn), so that their difference is what varies.

    Raises ValueError when the items, or with paired seeds the seeds, differ in number.
    """
    a, b = _arms(first, second, 2, paired_seeds)
    seeds_and_residuals = [
        (_seed_variance(arm.mean(axis=1)), _residual_variance(arm))
        for arm in ([b - a] if paired_seeds else [a, b])
    ]
    # [items]
    of_items = b.mean(axis=0) - a.mean(axis=0)
    items = float(of_items.var(ddof=1)) / len(of_items) if len(of_items) > 1 else 0.0
    return Difference(float(of_items.mean()), _standard_error(items, seeds_and_residuals))


def f1_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    paired_seeds: bool = False,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """Second arm's entity F1 minus the first's, both averaged over seeds.

    F1 is no mean over items, so the parts of the items and the residual come from a bootstrap:
    whole sentences are drawn again, the same ones for every seed of both arms.

    Args:
        first, second: [seeds, sentences, 3] counts as in `f1_scores`.
        paired_seeds: as in `accuracy_difference`.
        replicates: how many bootstrap test sets.
        seed: of the bootstrap; the same seed, the same result.
    """
    a, b = _arms(first, second, 3, paired_seeds)
    sentences = a.shape[1]
    random = np.random.default_rng(seed)
    # How often each sentence is drawn: [replicates, sentences]
    drawn = random.multinomial(sentences, np.full(sentences, 1 / sentences), size=replicates)
    again_a, again_b = (  # F1 of each bootstrap test set: [replicates, seeds]
        _f1(np.einsum("rn,snc->rsc", drawn, arm, optimize=True)) for arm in (a, b)
    )
    score_a, score_b = f1_scores(a), f1_scores(b)
    arms = (
        [(score_b - score_a, again_b - again_a)]
        if paired_seeds
        else [
            (score_a, again_a),
            (score_b, again_b),
        ]
    )
    seeds_and_residuals = [
        (_seed_variance(scores), _bootstrap_residual_variance(again)) for scores, again in arms
    ]
    items = float((again_b.mean(axis=1) - again_a.mean(axis=1)).var(ddof=1))
    return Difference(
        float(score_b.mean() - score_a.mean()), _standard_error(items, seeds_and_residuals)
    )


def _arms(first: ArrayLike, second: ArrayLike, axes: int, paired: bool) -> tuple[Floats, Floats]:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != axes or b.ndim != axes or a.shape[1:] != b.shape[1:] or 0 in a.shape + b.shape:
        raise ValueError(f"two arms on the same items are needed, not {a.shape} and {b.shape}")
    if paired and len(a) != len(b):
        raise ValueError(f"paired seeds need as many in both arms, not {len(a)} and {len(b)}")
    return a, b


def _f1(sums: Floats) -> Floats:
    """F1 of summed counts, [..., 3] → [...]."""
    true, predicted_only, gold_only = np.moveaxis(sums, -1, 0)
    size = 2 * true + predicted_only + gold_only
    return np.divide(2 * true, size, out=np.zeros_like(size), where=size > 0)


def _standard_error(items: float, seeds_and_residuals: list[tuple[float, float]]) -> float:
    seeds = sum(seed for seed, _ in seeds_and_residuals)
    residual = sum(residual for _, residual in seeds_and_residuals)
    return float(np.sqrt(items + max(0.0, seeds - residual)))


def _seed_variance(scores: Floats) -> float:
    """Variance of a mean over seeds, from the seeds' scores: [seeds]."""
    return float(scores.var(ddof=1)) / len(scores) if len(scores) > 1 else 0.0


def _residual_variance(arm: Floats) -> float:
    """Residual mean square of a two-way layout [seeds, items], / (seeds × items)."""
    seeds, items = arm.shape
    if seeds < 2 or items < 2:
        return 0.0
    residual = arm - arm.mean(axis=0) - arm.mean(axis=1, keepdims=True) + arm.mean()
    return float((residual**2).sum()) / ((seeds - 1) * (items - 1)) / (seeds * items)


def _bootstrap_residual_variance(again: Floats) -> float:
    """The same from bootstrap scores [replicates, seeds]: how far seeds move apart in them."""
    seeds = again.shape[1]
    if seeds < 2:
        return 0.0
    apart = again - again.mean(axis=1, keepdims=True)
    return float(apart.var(axis=0, ddof=1).sum()) / (seeds - 1) / seeds
