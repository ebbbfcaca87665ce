"""Regression: one number for a text or a pair (as STS-B), by squared error on the pooled output.

The sequence is classification's; the model's one output is the number itself. A fresh head starts
at the mean of the training scores, and learns in units of about their standard deviation: so prices
are learned as well as stars, and the first steps are not spent on the mean. A head that was trained
on numbers of another range would never come back from there, so it starts fresh too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from torch import nn

from bertkit.model.bert import RegressionModel
from bertkit.model.layers import Linear, truncated_normal_
from bertkit.tasks.batches import flat_inputs
from bertkit.tasks.metrics import correlation_scores
from bertkit.tasks.readers import TextExample, own_files, read_scores
from bertkit.tasks.task import Features, Scores, Task, one_by_one
from bertkit.tasks.texts import asked_line, text_features, texts
from bertkit.tasks.windows import merge_numbers
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums

OUTPUT = "score"
"""The name of the one output in the checkpoint."""
BINS = 10
"""Rows of the report's table of scores."""
FAR = 4.0
"""From the mean, in standard deviations (to the next power of two)."""
OTHER_SIZE = 10.0
"""Fine-tuning changes the size of a head's weights by less than this factor."""


@dataclass(frozen=True)
class ScorePrediction:
    """The number that the model says."""

    score: float


def targets(example: TextExample, number_of: Mapping[str, int]) -> list[float]:
    """The score."""
    return [float(example.label)]


def collate(features: Sequence[Features]) -> Batch:
    """One micro-batch; `targets` holds "scores" [sequences] float32, where they are known."""
    scores = [score for one in features for score in one.targets]
    return Batch(flat_inputs(features), {"scores": torch.tensor(scores, dtype=torch.float32)})


def start(model: nn.Module, examples: Sequence[TextExample], fresh: bool) -> bool:
    """Sets the model's scale to the power of two nearest to the scores' standard deviation, and a
    fresh head's bias to their mean; so it does with a head whose numbers are of another range.

    Returns whether the head is fresh now.
    """
    assert isinstance(model, RegressionModel)
    scores = [float(example.label) for example in examples]
    mean, deviation = fmean(scores), pstdev(scores)
    model.rescale(2.0 ** round(math.log2(deviation)) if deviation else 1.0)
    head, drawn = model.classifier.dense, model.config.initializer_range
    if not fresh and _is_near(head, mean / model.scale, drawn):
        return False
    with torch.no_grad():
        if fresh:
            head.weight.mul_(model.scale)  # it was drawn for a number near 1
        else:
            truncated_normal_(head.weight, drawn)
        head.bias.fill_(mean / model.scale)
    return True


def _is_near(head: Linear, mean: float, drawn: float) -> bool:
    """Whether a head's numbers are about in the range of the scores, both in the scores' scale.

    Args:
        drawn: the standard deviation that weights start from.
    """
    size = float(head.weight.detach().square().mean().sqrt()) / drawn
    return abs(float(head.bias.detach()) - mean) < FAR and 1 / OTHER_SIZE < size < OTHER_SIZE


class ScoreObjective:
    """Squared error, in units of the model's scale."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"score": batch.targets["scores"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        assert isinstance(model, RegressionModel)
        found = model(batch.inputs).squeeze(1).float()  # [sequences]
        errors = (found - batch.targets["scores"]) / model.scale
        return LossSums({"score": errors.square().sum()})


def outputs(model: nn.Module, batch: Batch, features: Sequence[Features]) -> list[np.ndarray]:
    """The number for each sequence, [1] float32."""
    return list(model(batch.inputs).float().cpu().numpy())


def decode_one(example: TextExample, score: np.ndarray, labels: Sequence[str]) -> ScorePrediction:
    """The number as it is; `score` is [1]."""
    return ScorePrediction(float(score[0]))


def metric(examples: Sequence[TextExample], predictions: Sequence[ScorePrediction]) -> Scores:
    """Pearson's and Spearman's correlation, and the root of the mean squared error."""
    return correlation_scores([float(e.label) for e in examples], [p.score for p in predictions])


def record(example: TextExample, prediction: ScorePrediction) -> dict[str, Any]:
    """A line of the prediction file: the text, the number, and the right one where known."""
    line = asked_line(example) | {"score": float(f"{prediction.score:.7g}")}
    if example.label:
        line["gold"] = float(example.label)
    return line


def ranges(examples: Sequence[TextExample]) -> Callable[[Sequence[TextExample]], dict[str, int]]:
    """Counts by equal ranges of these examples' scores; one range where all are the same.

    Scores beyond them count to the first or the last range.
    """
    scores = _scores(examples)
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    bins = BINS if low < high else 1
    width = (high - low) / bins
    borders = [low + number * width for number in range(bins + 1)]
    written = next(
        texts
        for digits in range(4, 18)
        if len(set(texts := [f"{one:.{digits}g}" for one in borders])) == len(borders)
        or digits == 17
    )
    names = [f"{one} to {following}" for one, following in pairwise(written)]
    names = names if width else [f"{low:g}"]

    def count(others: Sequence[TextExample]) -> dict[str, int]:
        places = [int((score - low) / width) if width else 0 for score in _scores(others)]
        found = Counter(min(max(place, 0), bins - 1) for place in places)
        return {name: found[bin] for bin, name in enumerate(names)}

    return count


def counts(examples: Sequence[TextExample]) -> dict[str, int]:
    """Examples in equal ranges of their scores."""
    return ranges(examples)(examples)


def _scores(examples: Sequence[TextExample]) -> list[float]:
    return [float(example.label) for example in examples if example.label]


REGRESSION = Task(
    name="regression",
    summary="a number for a text or a pair of texts, from your own table",
    files=own_files(),
    read=read_scores,
    labels=lambda examples: [OUTPUT],
    features=partial(text_features, targets),
    collate=collate,
    head="regression",
    objective=ScoreObjective(),
    outputs=outputs,
    decode=one_by_one(decode_one),
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    ranges=ranges,
    is_labelled=lambda example: bool(example.label),
    main="spearman",
    start=start,
    merge=merge_numbers,
)
