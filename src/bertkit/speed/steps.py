"""The work that is timed: bertkit's own steps on made-up tokens, as its commands run them.

A training step goes through the `Updater` that `pretrain` and `finetune` use: forward, backward,
clipping, AdamW, dropout at every site, what the log takes. Answers go through the function that
`predict` uses. The peer (`peer.py`) works on the same tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from bertkit.model.batch import FlatBatch
from bertkit.model.bert import ClassificationModel, PretrainingModel
from bertkit.model.config import ModelConfig
from bertkit.model.encoder import set_compute_dtype
from bertkit.model.flops import forward_flops, training_flops
from bertkit.pretraining.objectives import MaskedLMAndNextSentence
from bertkit.tasks.answers import BATCH_TOKENS, outputs
from bertkit.tasks.classification import CLASSIFICATION
from bertkit.tasks.task import Features, FeatureSet
from bertkit.training.batch import Batch
from bertkit.training.config import Precision, TrainOptions
from bertkit.training.objective import Objective
from bertkit.training.precision import compute_dtype
from bertkit.training.processes import Processes
from bertkit.training.ready import make_ready
from bertkit.training.update import Updater

VOCABULARY = 30522
FIRST_WORD = 1000
"""Lower ids are those of special tokens and of characters."""

MASK_RATE = 0.15
SHORTEST = 16
"""Tokens of the shortest sequence where lengths vary."""

LABELS = ["no", "yes"]
LEARN = TrainOptions(steps=1_000_000, learning_rate=1e-4, schedule="constant")

Step = Callable[[], float]
"""Does the work once; training returns its loss."""


@dataclass(frozen=True)
class Tokens:
    """Made-up sequences, the same for every side.

    Attributes:
        ids, segments: [sequences, length]; behind a sequence's end they mean nothing.
        lengths: [sequences].
        masked: [sequences, length] whether a position is to predict.
        labels: [sequences] 0 or 1.
    """

    ids: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray
    labels: np.ndarray

    @property
    def count(self) -> int:
        return int(self.lengths.sum())

    @property
    def real(self) -> np.ndarray:
        """[sequences, length] whether there is a token."""
        return np.arange(self.ids.shape[1]) < self.lengths[:, None]


def random_tokens(
    sequences: int,
    length: int,
    varied: bool = False,
    vocabulary: int = VOCABULARY,
    seed: int = 0,
) -> Tokens:
    """Sequences of a length, or of lengths from 16 to it; 15 % of each is to predict."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(min(FIRST_WORD, vocabulary - 1), vocabulary, (sequences, length))
    segments = np.repeat([[0] * (length // 2) + [1] * (length - length // 2)], sequences, axis=0)
    labels = generator.integers(0, 2, sequences)
    lengths = np.full(sequences, length)
    if varied:
        lengths = generator.integers(min(SHORTEST, length), length + 1, sequences)
    positions = np.arange(length)
    inner = (positions > 0) & (positions < lengths[:, None] - 1)  # not [CLS] and the last [SEP]
    ranks = np.where(inner, generator.random(ids.shape), 2).argsort(axis=1).argsort(axis=1)
    masked = ranks < np.maximum(1, np.round(MASK_RATE * lengths))[:, None]
    return Tokens(ids, segments, lengths, masked, labels)


def pretraining_step(
    sizes: ModelConfig, tokens: Tokens, precision: Precision, device: torch.device | str = "cpu"
) -> Step:
    """A step of `pretrain` (masked LM and next sentence, the whole batch at once)."""
    batches = [pretraining_batch(tokens)]
    return training_step(
        PretrainingModel(sizes), MaskedLMAndNextSentence(), batches, precision, device
    )


def pretraining_batch(tokens: Tokens) -> Batch:
    """All sequences, as `pretrain` would build it."""
    targets = {
        "masked": torch.from_numpy(tokens.masked[tokens.real].nonzero()[0]),
        "masked_ids": torch.from_numpy(tokens.ids[tokens.masked]),
        "next_sentence": torch.from_numpy(tokens.labels),
    }
    return Batch(flat(tokens), targets)


def pretraining_flops(sizes: ModelConfig, tokens: Tokens) -> float:
    """Operations that the products of such a step need."""
    sequences, hidden = len(tokens.lengths), sizes.hidden_size
    predicted = tokens.masked.sum() / tokens.count
    carried = predicted + sequences / tokens.count  # what the last layer carries on
    next_sentence = 3 * sequences * 2 * (hidden**2 + hidden * 2)  # through the pooler
    each = training_flops(sizes, tokens.lengths, predicted, carried)
    return float(round(tokens.count * each + next_sentence))


def finetuning_step(
    sizes: ModelConfig, tokens: Tokens, precision: Precision, device: torch.device | str = "cpu"
) -> Step:
    """A step of `finetune` for the classification of texts."""
    batch = CLASSIFICATION.collate(_features(tokens, learn=True))
    model = ClassificationModel(sizes, LABELS)
    return training_step(model, CLASSIFICATION.objective, [batch], precision, device)


def finetuning_flops(sizes: ModelConfig, tokens: Tokens) -> float:
    """Operations that such a step needs; only [CLS] is asked."""
    carried = len(tokens.lengths) / tokens.count
    return tokens.count * training_flops(sizes, tokens.lengths, carried=carried)


def answering(
    sizes: ModelConfig, tokens: Tokens, precision: Precision, device: torch.device | str = "cpu"
) -> Callable[[], object]:
    """`predict` behind its tokenizer: the labels of all sequences, cut into batches by budget."""
    model = ClassificationModel(sizes, LABELS).to(device).eval()
    set_compute_dtype(model, compute_dtype(precision, device))
    made = FeatureSet(_features(tokens, learn=False), tokens.lengths.tolist())
    return lambda: outputs(model, CLASSIFICATION, made, BATCH_TOKENS, quiet=True)


def answering_flops(sizes: ModelConfig, tokens: Tokens) -> float:
    """Operations that such answers need."""
    carried = len(tokens.lengths) / tokens.count
    return tokens.count * forward_flops(sizes, tokens.lengths, carried=carried)


def flat(tokens: Tokens) -> FlatBatch:
    """The sequences end to end."""
    real = tokens.real
    return FlatBatch.from_arrays(tokens.ids[real], tokens.segments[real], tokens.lengths)


def training_step(
    model: torch.nn.Module,
    objective: Objective,
    batches: Sequence[Batch],
    precision: Precision,
    device: torch.device | str,
) -> Step:
    """A step on the next of the batches, again and again, compiled where a long run is."""
    processes = Processes(0, 1, torch.device(device))
    options = replace(LEARN, precision=precision)
    update = Updater(model, objective, make_ready(model, options, processes), processes)
    stream = enumerate(itertools.cycle(batches))

    def step() -> float:
        number, batch = next(stream)
        return update(number, [(0, batch)], options)["loss"][0]

    return step


def _features(tokens: Tokens, learn: bool) -> list[Features]:
    found = []
    for number, length in enumerate(tokens.lengths):
        ids, segments = tokens.ids[number, :length], tokens.segments[number, :length]
        targets = [int(tokens.labels[number])] if learn else []
        found.append(Features(number, ids.tolist(), segments.tolist(), [0], [0], targets))
    return found
