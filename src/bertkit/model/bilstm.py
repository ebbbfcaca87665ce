"""A tagger on features of an encoder that stays as it is (paper, section 5.3).

    encoder, frozen ──▶ layers chosen, as one vector a token ──▶ two-layer BiLSTM ──▶ logits

The BiLSTM reads all tokens of a sequence, [CLS] and [SEP] included, and is asked at the first
sub-token of each word. Dropout, at the encoder's own rate, lies on the features, between the two
layers and before the classifier; the encoder itself runs without any. A weighted sum of layers
learns its weights: a softmax of one number a layer, times a scale (Peters et al. 2018, equation 1).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from bertkit.errors import UserError
from bertkit.model.batch import FlatBatch
from bertkit.model.config import ModelConfig
from bertkit.model.dropout import Dropout
from bertkit.model.encoder import Encoder
from bertkit.model.features import parse_layers
from bertkit.model.heads import LabelHead

LSTM_LAYERS = 2
"""As in the paper."""


class BiLstmTagger(nn.Module):
    """Hidden states in, logits out; everything that learns.

    Args:
        features: the name of the layers, see `model.features`.
        lstm_size: units in each direction.
    """

    def __init__(self, config: ModelConfig, labels: int, features: str, lstm_size: int) -> None:
        super().__init__()
        if lstm_size < 1:
            raise UserError(f"a BiLSTM of size {lstm_size} is none; give --lstm-size above 0")
        self.choice = parse_layers(features, config.layers)
        self.layer_weights: nn.Parameter | None = None
        self.scale: nn.Parameter | None = None
        if self.choice.how == "weighted":
            self.layer_weights = nn.Parameter(torch.zeros(len(self.choice.layers)))
            self.scale = nn.Parameter(torch.ones(1))
        self.dropout = Dropout(config.hidden_dropout)
        self.lstm = nn.LSTM(
            self.choice.size(config.hidden_size),
            lstm_size,
            num_layers=LSTM_LAYERS,
            batch_first=True,
            bidirectional=True,
            dropout=config.hidden_dropout,
        )
        self.output = LabelHead(config, labels, inputs=2 * lstm_size)

    def forward(self, states: list[Tensor], batch: FlatBatch, rows: Tensor) -> Tensor:
        """layers + 1 tensors [tokens, hidden] -> logits [rows, labels] of the tokens in `rows`."""
        weights = None
        if self.layer_weights is not None and self.scale is not None:
            weights = self.layer_weights.softmax(dim=0) * self.scale
        values = self.dropout(self.choice.mix(states, weights))  # [tokens, size]
        sequences = pack_sequence(values.split(batch.lengths.tolist()), enforce_sorted=False)
        read, _ = self.lstm(sequences)
        tokens = torch.cat(unpack_sequence(read))  # [tokens, 2 * lstm_size]
        return self.output(tokens.index_select(0, rows))


class BiLstmTaggingModel(nn.Module):
    """The encoder, frozen, with a BiLSTM tagger on its layers.

    Attributes:
        head_options: what else than labels the head is made with.
    """

    head = "bilstm-tagging"

    def __init__(
        self,
        config: ModelConfig,
        labels: list[str],
        features: str = "concat-last-four",
        lstm_size: int = 768,
    ) -> None:
        super().__init__()
        self.config = config
        self.labels = list(labels)
        self.head_options: dict[str, Any] = {"features": features, "lstm_size": lstm_size}
        self.encoder = Encoder(config).requires_grad_(False)
        self.tagger = BiLstmTagger(config, len(labels), features, lstm_size)

    def train(self, mode: bool = True) -> BiLstmTaggingModel:
        """The encoder is never in training: its features are the same every time."""
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, batch: FlatBatch, word_positions: Tensor) -> Tensor:
        """Logits [words, labels] at `word_positions`, [words] index into the tokens."""
        with torch.no_grad():
            states = self.encoder.hidden_states(batch)
        return self.tagger(states, batch, word_positions)
