"""The models: the encoder with the head of each family of tasks (paper, sections 3.1 and 4).

Every model has `.config`, `.encoder`, `.labels` (empty for pre-training) and a class attribute
`.head`, its family's name in MODELS. They start from torch's default generator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertkit.model.batch import FlatBatch
from bertkit.model.config import ModelConfig
from bertkit.model.encoder import Encoder
from bertkit.model.heads import LabelHead, LossSum, MaskedLMHead, NextSentenceHead


class PretrainingLosses(NamedTuple):
    """Sums over the batch, to be divided by their counts; next sentence is None without labels."""

    mlm_loss: Tensor
    mlm_correct: Tensor
    nsp_loss: Tensor | None
    nsp_correct: Tensor | None


class EncoderModel(nn.Module):
    """The bare encoder, for features."""

    head = "encoder"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.labels: list[str] = []
        self.encoder = Encoder(config)

    def forward(self, batch: FlatBatch) -> Tensor:
        """The last layer's hidden states, [tokens, hidden]."""
        return self.encoder(batch)


class PretrainingModel(nn.Module):
    """The encoder with masked LM and next sentence (paper, section 3.1).

    The next-sentence head may as well learn sentence order: label 1 says that B is not what
    follows A, whatever it is instead.
    """

    head = "pretraining"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.labels: list[str] = []
        self.encoder = Encoder(config)
        self.masked_lm = MaskedLMHead(config, self.encoder.embeddings.token)
        self.next_sentence = NextSentenceHead(config)

    def forward(self, batch: FlatBatch) -> Tensor:
        """The last layer's hidden states, [tokens, hidden]."""
        return self.encoder(batch)

    def losses(
        self,
        batch: FlatBatch,
        masked_positions: Tensor,
        masked_targets: Tensor,
        next_sentence_labels: Tensor | None = None,
    ) -> PretrainingLosses:
        """Both objectives of one batch.

        Args:
            batch: the sequences, already masked.
            masked_positions: [masked] index into the tokens.
            masked_targets: [masked] the true token ids there.
            next_sentence_labels: [sequences], 0 where B follows A, or None to leave it out.
        """
        masked = masked_positions.numel()
        rows = masked_positions
        if next_sentence_labels is not None:
            rows = torch.cat([masked_positions, self.encoder.summary_rows(batch)])
        hidden = self.encoder(batch, rows)  # [masked + sequences, hidden]
        mlm = self.masked_lm.loss(hidden[:masked], masked_targets)
        if next_sentence_labels is None:
            return PretrainingLosses(mlm.loss, mlm.correct, None, None)
        pooled = self.encoder.pool(hidden[masked:])
        nsp = self.next_sentence.loss(pooled, next_sentence_labels)
        return PretrainingLosses(mlm.loss, mlm.correct, nsp.loss, nsp.correct)


class MaskedLMModel(nn.Module):
    """The encoder with masked LM alone: no pooler, no next sentence."""

    head = "masked-lm"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.labels: list[str] = []
        self.encoder = Encoder(config, pooler=False)
        self.masked_lm = MaskedLMHead(config, self.encoder.embeddings.token)

    def forward(self, batch: FlatBatch) -> Tensor:
        """The last layer's hidden states, [tokens, hidden]."""
        return self.encoder(batch)

    def losses(self, batch: FlatBatch, positions: Tensor, targets: Tensor) -> LossSum:
        """Of the token ids `targets` ([predicted]), each from the token at `positions`."""
        return self.masked_lm.loss(self.encoder(batch, positions), targets)


class LeftToRightModel(MaskedLMModel):
    """The same layers under a causal mask; the head predicts the next token (paper, 5.1)."""

    head = "left-to-right"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(replace(config, causal=True))


class ClassificationModel(nn.Module):
    """The encoder with a classifier (or, with one label, a regressor) on the pooled output."""

    head = "classification"

    def __init__(self, config: ModelConfig, labels: list[str]) -> None:
        super().__init__()
        self.config = config
        self.labels = list(labels)
        self.encoder = Encoder(config)
        self.classifier = LabelHead(config, len(labels))

    def forward(self, batch: FlatBatch) -> Tensor:
        """Logits [sequences, labels]."""
        summary = self.encoder(batch, self.encoder.summary_rows(batch))
        return self.classifier(self.encoder.pool(summary))


class TaggingModel(nn.Module):
    """The encoder with a classifier on chosen tokens, as the first piece of each word.

    It has no pooler, for it never looks at a sequence as a whole.
    """

    head = "tagging"

    def __init__(self, config: ModelConfig, labels: list[str]) -> None:
        super().__init__()
        self.config = config
        self.labels = list(labels)
        self.encoder = Encoder(config, pooler=False)
        self.classifier = LabelHead(config, len(labels))

    def forward(self, batch: FlatBatch, word_positions: Tensor) -> Tensor:
        """Logits [words, labels] at `word_positions`, [words] index into the tokens."""
        return self.classifier(self.encoder(batch, word_positions))


MODELS: dict[str, type[nn.Module]] = {
    model.head: model
    for model in (
        EncoderModel,
        PretrainingModel,
        MaskedLMModel,
        LeftToRightModel,
        ClassificationModel,
        TaggingModel,
    )
}
"""The families by the name in `.head`."""
