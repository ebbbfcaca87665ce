"""Classification of a text or a pair of texts (paper, section 4.1).

    [CLS] text [SEP]            segments 0
    [CLS] text [SEP] pair [SEP] segments 0 ... 0 1 ... 1

The answer is asked at [CLS]. A text that is too long is cut at its end, of a pair the longer one
(the reference release's `_truncate_seq_pair` in run_classifier.py); or, to answer, it is read in
windows whose answers are averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from bertkit.tasks.labelling import LabelObjective, collate, probabilities
from bertkit.tasks.metrics import class_scores
from bertkit.tasks.readers import TABLES, TextExample, read_table, split_files
from bertkit.tasks.task import Features, FeatureSet, Scores, Task, TaskOptions
from bertkit.tasks.windows import merge_softmax, text_sequences
from bertkit.text.tokenizer import Tokenizer
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


def features(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """One sequence for each example, or its windows."""
    number_of = {label: number for number, label in enumerate(labels or [])}

    def targets(example: TextExample) -> list[int]:
        return [number_of[example.label]] if labels is not None else []

    return text_units(examples, tokenizer, options, targets)


def text_units(
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    options: TaskOptions,
    targets: Callable[[TextExample], list[Any]],
) -> FeatureSet:
    """A sequence (or windows) for each text or pair, asked at [CLS], with a family's targets."""
    made: list[Features] = []
    truncated = 0
    for number, example in enumerate(examples):
        parts = [tokenizer.token_ids(text) for text in texts(example)]
        sequences, cut = text_sequences(parts, tokenizer, options.sequence_length, options.long)
        truncated += cut
        for ids, segments in sequences:
            made.append(Features(number, ids, segments, [0], [0], targets(example)))
    return FeatureSet(made, [len(one.ids) for one in made], truncated)


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[sequences, labels]."""
    return model(batch.inputs)


def decode(
    examples: Sequence[TextExample],
    asked: Sequence[Features],
    outputs: Sequence[np.ndarray],
    labels: Sequence[str],
    options: TaskOptions,
) -> list[ClassPrediction]:
    """The most probable label of each example; `outputs` are probabilities [1, labels]."""
    predictions = []
    for rows in outputs:
        best = int(rows[0].argmax())
        by_label = {label: float(p) for label, p in zip(labels, rows[0], strict=True)}
        predictions.append(ClassPrediction(labels[best], float(rows[0, best]), by_label))
    return predictions


def unknown(examples: Sequence[TextExample], labels: Sequence[str]) -> list[str]:
    """Labels of the examples that the model does not have."""
    return sorted({example.label for example in examples if example.label}.difference(labels))


def metric(examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]) -> Scores:
    """Accuracy and macro F1."""
    return class_scores([e.label for e in examples], [p.label for p in predictions])


def record(example: TextExample, prediction: ClassPrediction) -> dict[str, Any]:
    """A line of the prediction file: the text, the answer, and the right label where known."""
    line = text_of(example) | {
        "label": prediction.label,
        "probability": round(prediction.probability, 6),
        "probabilities": {name: round(p, 6) for name, p in prediction.probabilities.items()},
    }
    if example.label:
        line["gold"] = example.label
    return line


def text_of(example: TextExample) -> dict[str, Any]:
    """The beginning of a line of the prediction file: what was asked about."""
    line: dict[str, Any] = {"id": example.id} if example.id else {}
    line["text"] = example.text
    if example.pair is not None:
        line["pair"] = example.pair
    return line


def texts(example: TextExample) -> tuple[str, ...]:
    """The text, or both of a pair."""
    return (example.text,) if example.pair is None else (example.text, example.pair)


def counts(examples: Sequence[TextExample]) -> dict[str, int]:
    """Examples of each label."""
    found = Counter(example.label for example in examples if example.label)
    return {label: found[label] for label in sorted(found, key=_by_number_then_name)}


def blind(examples: Sequence[TextExample], labels: Sequence[str]) -> list[list[ClassPrediction]]:
    """Each label, always."""
    return [[ClassPrediction(label, 1.0, {label: 1.0})] * len(examples) for label in labels]


def _by_number_then_name(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


CLASSIFICATION = Task(
    name="classification",
    summary="one label for a text or a pair of texts, from your own table",
    files=split_files(TABLES),
    read=read_table,
    labels=label_names,
    features=features,
    collate=collate,
    head="classification",
    objective=LabelObjective(logits),
    outputs=partial(probabilities, logits),
    decode=decode,
    unknown=unknown,
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    is_labelled=lambda example: bool(example.label),
    main="accuracy",
    merge=merge_softmax,
    blind=blind,
)
