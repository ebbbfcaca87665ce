"""What a task is: small parts with names, and what passes between them.

    file ──read──▶ examples ──features──▶ units ──collate──▶ batch ──objective──▶ loss
                       │                    └────▶ batch ──outputs──▶ decode ──▶ predictions
                       └──────────────────── metric ◀────────────────────────────────┤
                                                                  JSONL ◀──record────┘

An entry of the registry names the parts. The family of the entry (classification, tagging, ...)
decides by itself what it trains on, what its loss is and what the model's output means; training
(`finetune.py`), batches (`batches.py`) and answers (`answers.py`) know none of it.

A unit is what stays whole in a micro-batch: most often one sequence (`Features`), but it may be
several, as the choices of one question. An example may make several units (windows), or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from bertkit.tasks.config import Long, WindowMean
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.objective import Objective

Merge = Callable[[np.ndarray, WindowMean], np.ndarray]


@dataclass(frozen=True)
class Columns:
    """Names of the columns that the user gave; None means the task's own.

    Attributes:
        unlabeled: whether a file without labels may be read, to be answered and not scored.
        delimiter: of the labels in one cell, for multi-label classification.
        choices: columns of the choices, or the one column that holds a list of them.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    unlabeled: bool = False
    delimiter: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskOptions:
    """What the user may say about how examples become units and outputs become predictions.

    Attributes:
        sequence_length: tokens of the longest sequence, specials included.
        long: "windows" reads an example that is too long in several units, where its family can.
        window_mean: what `Task.merge` averages.
        document_context: tagging: fill a sentence's sequence with the text around it.
        doc_stride, doc_overlap, question_tokens: question answering, see
            `question_windows.Windowing`; without either of the first two the stride is 128.
        answer_tokens, n_best: question answering, see `spans.decode_answers`.
    """

    sequence_length: int
    long: Long = "cut"
    window_mean: WindowMean = "probabilities"
    document_context: bool = False
    doc_stride: int | None = None
    doc_overlap: int | None = None
    question_tokens: int = 64
    answer_tokens: int = 30
    n_best: int = 20


@dataclass(frozen=True)
class Features:
    """A unit of one sequence, and where in it an answer is wanted.

    Attributes:
        example: the example's number.
        ids, segments: [tokens].
        asked: [answers] positions in the sequence.
        words: [answers] tagging: the word that the answer is for; classification: [0].
        targets: [answers] the right labels' numbers, a score, or 0 or 1 for each label; empty when
            nothing is to be learned.
    """

    example: int
    ids: list[int]
    segments: list[int]
    asked: list[int]
    words: list[int]
    targets: Sequence[float]


@dataclass
class FeatureSet:
    """The units of many examples.

    Attributes:
        features: the units, which have at least `example`, the example's number. Any sequence
            that makes the units when they are asked for will do.
        lengths: [units] tokens of each, over all its sequences.
        truncated: examples that lost tokens to the sequence length.
        whole: tokens of each example's longest sequence before any is cut; None where none is.
        unseen_words: words that became no token (control characters), so got no answer.
        notes: what else the user should know before training, a line each.
    """

    features: Sequence[Any]
    lengths: Sequence[int]
    truncated: int = 0
    whole: Sequence[int] | None = None
    unseen_words: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class Scores:
    """A task's metrics by name, from 0 to 1, and the same for each label: rows for a table."""

    metrics: dict[str, float]
    table: list[dict[str, Any]]


Decode = Callable[
    [Sequence[Any], Sequence[Any], Sequence[Any], Sequence[str], TaskOptions], list[Any]
]


def one_by_one(decode_one: Callable[[Any, np.ndarray, Sequence[str]], Any]) -> Decode:
    """The `decode` of a family where each prediction comes from the output of one unit.

    Args:
        decode_one: (example, output of its unit, labels) -> prediction.
    """

    def decode(
        examples: Sequence[Any],
        units: Sequence[Any],
        outputs: Sequence[np.ndarray],
        labels: Sequence[str],
        options: TaskOptions,
    ) -> list[Any]:
        return [decode_one(*one, labels) for one in zip(examples, outputs, strict=True)]

    return decode


@dataclass(frozen=True)
class Task:
    """One entry of the registry; `Any` stands for the family's own example, unit and prediction.

    Attributes:
        name, summary: for the command line and its messages.
        files: split -> file names looked for in the folder of `--data`, in this order.
        read: (path, columns) -> examples, with their labels.
        features: (examples, tokenizer, labels, options) -> units. With labels None, no targets
            are made.
        collate: units -> one micro-batch of them, with targets where the units have them.
        head: name of the model's head.
        objective: the loss of a micro-batch, summed and counted (see `training/loop.py`).
        outputs: (model, batch, its units) -> what the model says of each unit, in order, as
            arrays off the device.
        decode: (examples, units, outputs of each, labels, options) -> a prediction an example.
        metric: (examples, predictions) -> scores.
        record: (example, prediction) -> one line of the prediction file.
        texts: example -> the texts it asks about; equal texts make a duplicate.
        counts: examples -> how many there are of each label, for the report before training.
        ranges: training examples -> a `counts` by their ranges, where labels are numbers.
        context: example -> the text that several may ask about: such examples are not divided
            between training and dev.
        main: the metric that says which of two models is better.
        labels: examples -> the names of what the head's outputs mean, in their order; none where
            the outputs have no names.
        unknown: (examples, labels) -> what the examples are labelled with and the model lacks;
            with no labels all that they are labelled with.
        merge: outputs of an example's windows -> one output, where the family makes windows of
            what is too long when `TaskOptions.long` says so; they are an array with a row for
            each window.
        feature_head: name of the head on frozen features, where the family has one.
        blind: (examples, labels) -> the predictions of each way to answer all examples alike; a
            model that scores no better has learned nothing. None where such answers score 0.
        least_labels: fewer kinds of labels in `counts` mean that there is nothing to learn.
        trivial: nor is there where all examples are of this kind.
        start: (model, training examples, whether the head is fresh) sets what the family wants of
            a model before training; returns whether the head is fresh now.
        is_labelled: example -> whether it says what is right.
        from_input: (input, tokenizer) -> an example without labels, where the task takes other
            inputs than texts, pairs of them and words (see `inference/load.py`).
        pairs: whether its texts are pairs in every row, so that single texts are none of it.
        submission: (examples, predictions, split) -> file name -> content, as the data set's
            makers want predictions; None where they ask for none.
        calibrate: (model, dev examples, predictions) -> the predictions as the model decides
            from now on, having set in it what is chosen on dev; None where nothing is.
        sequence_length: tokens where the user says nothing.
        micro_batch_tokens: tokens of a model of base size computed at once in training on a CPU,
            where the user does not say how many sequences; None: the whole step.
    """

    name: str
    summary: str
    files: dict[str, tuple[str, ...]]
    read: Callable[[Path, Columns], list[Any]]
    features: Callable[[Sequence[Any], Tokenizer, Sequence[str] | None, TaskOptions], FeatureSet]
    collate: Callable[[Sequence[Any]], Batch]
    head: str
    objective: Objective
    outputs: Callable[[nn.Module, Batch, Sequence[Any]], list[Any]]
    decode: Decode
    metric: Callable[[Sequence[Any], Sequence[Any]], Scores]
    record: Callable[[Any, Any], dict[str, Any]]
    texts: Callable[[Any], tuple[str, ...]]
    counts: Callable[[Sequence[Any]], dict[str, int]]
    main: str
    labels: Callable[[Sequence[Any]], list[str]] = lambda examples: []
    ranges: Callable[[Sequence[Any]], Callable[[Sequence[Any]], dict[str, int]]] | None = None
    context: Callable[[Any], str] | None = None
    unknown: Callable[[Sequence[Any], Sequence[str]], list[str]] = lambda examples, labels: []
    merge: Merge | None = None
    feature_head: str | None = None
    blind: Callable[[Sequence[Any], Sequence[str]], list[list[Any]]] | None = None
    least_labels: int = 2
    trivial: str | None = None
    start: Callable[[nn.Module, Sequence[Any], bool], bool] | None = None
    is_labelled: Callable[[Any], bool] = lambda example: True
    from_input: Callable[[Any, Tokenizer], Any] | None = None
    pairs: bool = False
    submission: Callable[[Sequence[Any], Sequence[Any], str], dict[str, str]] | None = None
    calibrate: Callable[[nn.Module, Sequence[Any], Sequence[Any]], list[Any]] | None = None
    sequence_length: int = 128
    micro_batch_tokens: int | None = None
