"""What a task is: six small parts, and the examples and predictions that pass between them.

    file ──read──▶ examples ──features──▶ sequences ──head──▶ probabilities ──decode──▶ predictions
                       └──────────────────── metric ◀───────────────────────────────────────┤
                                                                    JSONL ◀──record─────────┘

An entry of the registry names the six parts; two families fill them, classification
(`classification.py`) and tagging (`tagging.py`). Both ask the encoder for answers at certain
positions of a sequence, classification at [CLS] and tagging at the first sub-token of each word
(paper, sections 4.1 and 5.3), so both train on the same cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch


@dataclass(frozen=True)
class Columns:
    """Names of the columns that the user gave; None means the task's own."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Features:
    """One sequence for the encoder, and where in it an answer is wanted.

    Attributes:
        example: the example's number.
        ids, segments: [tokens].
        asked: [answers] positions in the sequence.
        words: [answers] tagging: the word that the answer is for; classification: [0].
        targets: [answers] the right labels' numbers; empty when nothing is to be learned.
    """

    example: int
    ids: list[int]
    segments: list[int]
    asked: list[int]
    words: list[int]
    targets: list[int]


@dataclass
class FeatureSet:
    """The features of many examples.

    Attributes:
        truncated: examples that lost tokens to the sequence length.
        unseen_words: words that became no token (control characters), so got no answer.
    """

    features: list[Features] = field(default_factory=list)
    truncated: int = 0
    unseen_words: int = 0


@dataclass
class Scores:
    """A task's metrics by name, from 0 to 1, and the same for each label: rows for a table."""

    metrics: dict[str, float]
    table: list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """One entry of the registry; `Any` stands for the family's own example and prediction.

    Attributes:
        name, summary: for the command line and its messages.
        files: split -> file names looked for in the folder of `--data`, in this order.
        read: (path, columns) -> examples, with their labels.
        labels: examples -> the label names in the head's order.
        features: (examples, tokenizer, labels, sequence length) -> sequences. With labels None,
            no targets are made.
        head: name of the model's head.
        logits: (model, batch) -> [answers, labels].
        decode: (examples, features, probabilities of each, labels) -> predictions.
        unknown: (examples, labels) -> what the examples are labelled with and the model lacks.
        metric: (examples, predictions) -> scores.
        record: (example, prediction) -> one line of the prediction file.
    """

    name: str
    summary: str
    files: dict[str, tuple[str, ...]]
    read: Callable[[Path, Columns], list[Any]]
    labels: Callable[[Sequence[Any]], list[str]]
    features: Callable[[Sequence[Any], Tokenizer, Sequence[str] | None, int], FeatureSet]
    head: str
    logits: Callable[[nn.Module, Batch], Tensor]
    decode: Callable[
        [Sequence[Any], Sequence[Features], Sequence[np.ndarray], Sequence[str]], list[Any]
    ]
    unknown: Callable[[Sequence[Any], Sequence[str]], list[str]]
    metric: Callable[[Sequence[Any], Sequence[Any]], Scores]
    record: Callable[[Any, Any], dict[str, Any]]
