"""Classification of a text or a pair of texts (paper, section 4.1), asked at [CLS]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from bertkit.tasks.labelling import LabelObjective, collate, probabilities
from bertkit.tasks.metrics import class_scores
from bertkit.tasks.readers import TextExample, as_number, own_files, read_table
from bertkit.tasks.task import Scores, Task, one_by_one
from bertkit.tasks.texts import asked_line, rounded, text_features, texts
from bertkit.tasks.windows import merge_softmax
from bertkit.training.batch import Batch


@dataclass(frozen=True)
class ClassPrediction:
    """The most probable label, and every label's probability."""

    label: str
    probability: float
    probabilities: dict[str, float]


def label_names(examples: Sequence[TextExample]) -> list[str]:
    """The labels that occur; numbers in their own order, before words."""
    return sorted({example.label for example in examples}, key=_by_number_then_name)


def targets(example: TextExample, number_of: Mapping[str, int]) -> list[int]:
    """The label's number."""
    return [number_of[example.label]]


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[sequences, labels]."""
    return model(batch.inputs)


def decode_one(
    example: TextExample, probabilities: np.ndarray, labels: Sequence[str]
) -> ClassPrediction:
    """The most probable label; `probabilities` are [1, labels]."""
    [row] = probabilities
    best = int(row.argmax())
    by_label = {label: float(p) for label, p in zip(labels, row, strict=True)}
    return ClassPrediction(labels[best], float(row[best]), by_label)


def unknown(examples: Sequence[TextExample], labels: Sequence[str]) -> list[str]:
    """Labels of the examples that the model does not have."""
    return sorted({example.label for example in examples if example.label}.difference(labels))


def accuracy(examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]) -> Scores:
    """Accuracy and macro F1."""
    return class_scores([e.label for e in examples], [p.label for p in predictions])


def record(example: TextExample, prediction: ClassPrediction) -> dict[str, Any]:
    """A line of the prediction file: the text, the answer, and the right label where known."""
    line = asked_line(example) | {
        "label": prediction.label,
        "probability": round(prediction.probability, 6),
        "probabilities": rounded(prediction.probabilities),
    }
    if example.label:
        line["gold"] = example.label
    return line


def counts(examples: Sequence[TextExample]) -> dict[str, int]:
    """Examples of each label."""
    found = Counter(example.label for example in examples if example.label)
    return {label: found[label] for label in sorted(found, key=_by_number_then_name)}


def blind(examples: Sequence[TextExample], labels: Sequence[str]) -> list[list[ClassPrediction]]:
    """Each label, always."""
    return [[ClassPrediction(label, 1.0, {label: 1.0})] * len(examples) for label in labels]


def _by_number_then_name(label: str) -> tuple[int, float, str]:
    number = as_number(label)  # none for "nan", which has no place among numbers
    return (1, 0.0, label) if number is None else (0, number, label)


CLASSIFICATION = Task(
    name="classification",
    summary="one label for a text or a pair of texts, from your own table",
    files=own_files(),
    read=read_table,
    labels=label_names,
    features=partial(text_features, targets),
    collate=collate,
    head="classification",
    objective=LabelObjective(logits),
    outputs=partial(probabilities, logits),
    decode=one_by_one(decode_one),
    unknown=unknown,
    metric=accuracy,
    record=record,
    texts=texts,
    counts=counts,
    is_labelled=lambda example: bool(example.label),
    main="accuracy",
    merge=merge_softmax,
    blind=blind,
)
