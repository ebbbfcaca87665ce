"""The models: the encoder with the head of each family of tasks (paper, sections 3.1 and 4).

Every model has `.config`, `.encoder`, `.labels` (empty for pre-training) and a class attribute
`.head`, its family's name in MODELS. They start from torch's default generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertkit.model.batch import FlatBatch
from bertkit.model.bilstm import BiLstmTaggingModel
from bertkit.model.config import ModelConfig
from bertkit.model.encoder import Encoder
from bertkit.model.heads import LabelHead, LossSum, MaskedLMHead, NextSentenceHead, SpanHead


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
    """The encoder with one layer on the pooled output, one output for each label."""

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


class RegressionModel(ClassificationModel):
    """The same layers; the one output is a number (its name is the one label).

    In training the number is `scale` times the layer's output, so that numbers of any size are
    learned at the same pace. The scale is a power of two, which rounds nothing, and stays inside:
    `state_dict` gives and takes the weights of the number itself.
    """

    head = "regression"
    scale = 1.0

    def forward(self, batch: FlatBatch) -> Tensor:
        """The number for each sequence, [sequences, 1]."""
        return super().forward(batch) * self.scale

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        values = super().state_dict(*args, **kwargs)
        return values if self.scale == 1 else _scaled(values, self.scale)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        return super().load_state_dict(_scaled(state_dict, 1 / self.scale), *args, **kwargs)

    def rescale(self, scale: float) -> None:
        """Changes the scale, and the layer so that the number stays the same."""
        with torch.no_grad():
            for weights in self.classifier.parameters():
                weights.mul_(self.scale / scale)
        self.scale = scale


def _scaled(state: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """A state with the classifier's weights times `scale`."""
    return {
        name: value * scale if name.startswith("classifier.") else value
        for name, value in state.items()
    }


class MultiLabelModel(ClassificationModel):
    """The same layers; each output says by itself whether its label holds (by a sigmoid)."""

    head = "multi-label"


class MultipleChoiceModel(nn.Module):
    """The encoder with one vector (and a bias, which a softmax does not see) on the pooled output.

    Each choice is a sequence of its own; a softmax over the scores of a question's choices makes
    them probabilities (paper, section 4.4).
    """

    head = "multiple-choice"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.labels: list[str] = []
        self.encoder = Encoder(config)
        self.classifier = LabelHead(config, 1)

    def forward(self, batch: FlatBatch) -> Tensor:
        """Scores [sequences]."""
        summary = self.encoder(batch, self.encoder.summary_rows(batch))
        return self.classifier(self.encoder.pool(summary)).squeeze(1)


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


class QuestionAnsweringModel(nn.Module):
    """The encoder with a start and an end vector over the tokens (paper, sections 4.2 and 4.3).

    It has no pooler, for it never looks at a sequence as a whole.

    Attributes:
        null_threshold: a question counts as unanswerable when its null odds (score of the span
            at [CLS] less that of the best answer) are above it; None: every question is answered.
    """

    head = "question-answering"

    def __init__(self, config: ModelConfig, labels: Sequence[str] = ()) -> None:
        super().__init__()
        self.config = config
        self.labels = list(labels)  # none: the outputs are always start and end
        self.null_threshold: float | None = None
        self.encoder = Encoder(config, pooler=False)
        self.spans = SpanHead(config)

    def forward(self, batch: FlatBatch) -> Tensor:
        """Start and end scores, [tokens, 2]."""
        return self.spans(self.encoder(batch))


MODELS: dict[str, type[nn.Module]] = {
    model.head: model
    for model in (
        EncoderModel,
        PretrainingModel,
        MaskedLMModel,
        LeftToRightModel,
        ClassificationModel,
        RegressionModel,
        MultiLabelModel,
        MultipleChoiceModel,
        TaggingModel,
        QuestionAnsweringModel,
        BiLstmTaggingModel,
    )
}
"""The families by the name in `.head`."""

LABELLED = frozenset({"classification", "regression", "multi-label", "tagging", "bilstm-tagging"})
"""Heads that are made with label names."""
