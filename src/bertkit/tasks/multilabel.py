"""Multi-label classification: any number of labels for a text or a pair.

The sequence is classification's; each label is a yes or no of its own, by a sigmoid and binary
cross-entropy, and holds where its probability is one half or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bertkit.tasks.batches import flat_inputs
from bertkit.tasks.metrics import label_set_scores
from bertkit.tasks.readers import TextExample, own_files, read_label_lists
from bertkit.tasks.task import Features, Scores, Task, one_by_one
from bertkit.tasks.texts import asked_line, rounded, text_features, texts
from bertkit.tasks.windows import merge_sigmoid
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums

THRESHOLD = 0.5


@dataclass(frozen=True)
class LabelSetPrediction:
    """The labels that hold, and every label's probability."""

    labels: list[str]
    probabilities: dict[str, float]


def label_names(examples: Sequence[TextExample]) -> list[str]:
    """The labels that occur, in alphabetical order."""
    return sorted({label for example in examples for label in example.labels or ()})


def targets(example: TextExample, number_of: Mapping[str, int]) -> list[float]:
    """[labels] 1 for a label that holds, 0 for another."""
    return [float(label in (example.labels or ())) for label in number_of]


def collate(features: Sequence[Features]) -> Batch:
    """One micro-batch; `targets` holds "labels" [sequences, labels] float32."""
    rows = torch.tensor([one.targets for one in features], dtype=torch.float32)
    return Batch(flat_inputs(features), {"labels": rows})


class LabelSetObjective:
    """Binary cross-entropy of each label."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"label": batch.targets["labels"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        logits, labels = model(batch.inputs), batch.targets["labels"]  # [sequences, labels]
        loss = F.binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")
        right = ((logits.detach() >= 0) == (labels > 0.5)).sum()
        return LossSums({"label": loss}, {"label_accuracy": (right, labels.numel())})


def outputs(model: nn.Module, batch: Batch, features: Sequence[Features]) -> list[np.ndarray]:
    """The labels' probabilities for each sequence, [labels] float32."""
    return list(model(batch.inputs).float().sigmoid().cpu().numpy())


def decode_one(
    example: TextExample, probabilities: np.ndarray, labels: Sequence[str]
) -> LabelSetPrediction:
    """The labels with a probability of THRESHOLD or more; `probabilities` are [labels]."""
    by_label = {label: float(p) for label, p in zip(labels, probabilities, strict=True)}
    return LabelSetPrediction([label for label, p in by_label.items() if p >= THRESHOLD], by_label)


def unknown(examples: Sequence[TextExample], labels: Sequence[str]) -> list[str]:
    """Labels of the examples that the model does not have."""
    return sorted(set(label_names(examples)).difference(labels))


def metric(examples: Sequence[TextExample], predictions: Sequence[LabelSetPrediction]) -> Scores:
    """Micro and macro F1, and the share of examples with exactly the right labels."""
    return label_set_scores([e.labels or () for e in examples], [p.labels for p in predictions])


def record(example: TextExample, prediction: LabelSetPrediction) -> dict[str, Any]:
    """A line of the prediction file: the text, its labels, and the right ones where known."""
    line = asked_line(example) | {
        "labels": prediction.labels,
        "probabilities": rounded(prediction.probabilities),
    }
    if example.labels is not None:
        line["gold"] = list(example.labels)
    return line


def counts(examples: Sequence[TextExample]) -> dict[str, int]:
    """Examples that have each label."""
    found = Counter(label for example in examples for label in example.labels or ())
    return {label: found[label] for label in label_names(examples)}


def blind(examples: Sequence[TextExample], labels: Sequence[str]) -> list[list[LabelSetPrediction]]:
    """The most frequent labels, always: as many as score best (their micro F1)."""
    found = Counter(label for example in examples for label in example.labels or ())
    order = sorted(labels, key=lambda label: -found[label])
    right = accumulate(found[label] for label in order)
    scores = [
        2 * hits / max(count * len(examples) + found.total(), 1)
        for count, hits in enumerate(right, 1)
    ]
    best = order[: 1 + int(np.argmax(scores))]
    return [[LabelSetPrediction(best, {})] * len(examples)]


MULTI_LABEL = Task(
    name="multi-label",
    summary="any number of labels for a text or a pair of texts, from your own table",
    files=own_files(),
    read=read_label_lists,
    labels=label_names,
    features=partial(text_features, targets),
    collate=collate,
    head="multi-label",
    objective=LabelSetObjective(),
    outputs=outputs,
    decode=one_by_one(decode_one),
    unknown=unknown,
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    is_labelled=lambda example: example.labels is not None,
    main="micro_f1",
    merge=merge_sigmoid,
    blind=blind,
    least_labels=1,
)
