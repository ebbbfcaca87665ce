"""How many parameters a model has, and why: each group with its arithmetic. Needs no torch.

The paper's "110M" and "340M" are the encoder with its pooler at a vocabulary of 30,522. The masked
LM's output layer is the token embeddings and counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertkit.model.config import ModelConfig

_NO_POOLER = ("masked-lm", "left-to-right", "tagging", "question-answering")
_OUTPUTS = {"multiple-choice": 1, "question-answering": 2}
"""Of the heads whose outputs are no labels."""


@dataclass(frozen=True)
class ParameterRow:
    """A group of parameters.

    Attributes:
        name: what it is.
        arithmetic: its number written out, as "12 × (4·768² + 4·768)".
        count: its number.
    """

    name: str
    arithmetic: str
    count: int


@dataclass(frozen=True)
class ParameterTable:
    """The parameters of the encoder and of the heads that stand on it."""

    encoder: list[ParameterRow]
    heads: list[ParameterRow]

    @property
    def encoder_total(self) -> int:
        return sum(row.count for row in self.encoder)

    @property
    def total(self) -> int:
        return self.encoder_total + sum(row.count for row in self.heads)

    def __str__(self) -> str:
        """The table as aligned text."""
        encoder_total = ParameterRow("encoder", "", self.encoder_total)
        total = ParameterRow("encoder and heads", "", self.total)
        rows = [*self.encoder, encoder_total, *self.heads, *([total] if self.heads else [])]
        name = max(len(row.name) for row in rows)
        arithmetic = max(len(row.arithmetic) for row in rows)
        return "\n".join(
            f"{row.name:<{name}}  {row.arithmetic:<{arithmetic}}  {row.count:>11,}" for row in rows
        )


def parameter_table(
    config: ModelConfig,
    head: str = "pretraining",
    labels: int = 0,
    options: Mapping[str, Any] | None = None,
) -> ParameterTable:
    """The parameters of a model.

    Args:
        config: the sizes.
        head: "pretraining", "masked-lm" or "left-to-right", or "encoder" for none, or another
            with `labels` outputs.
        labels: outputs of a head with labels.
        options: what else the head is made with, `head_options` of the model.
    """
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.layers
    square = f"{hidden}²"
    encoder = [
        _table("token embeddings", config.vocab_size, hidden),
        _table("position embeddings", config.max_positions, hidden),
        _table("segment embeddings", config.segment_types, hidden),
        ParameterRow("embeddings' LayerNorm", f"2·{hidden}", 2 * hidden),
        ParameterRow(
            "attention",
            f"{layers} × (4·{square} + 4·{hidden})",
            layers * (4 * hidden**2 + 4 * hidden),
        ),
        ParameterRow(
            "feed-forward",
            f"{layers} × (2·{hidden}·{inner} + {inner} + {hidden})",
            layers * (2 * hidden * inner + inner + hidden),
        ),
        ParameterRow("layers' LayerNorms", f"{layers} × 4·{hidden}", layers * 4 * hidden),
    ]
    language_model = head in ("masked-lm", "left-to-right")
    if head not in _NO_POOLER:
        encoder.append(ParameterRow("pooler", f"{square} + {hidden}", hidden**2 + hidden))
    if head == "encoder":
        return ParameterTable(encoder, [])
    if head == "bilstm-tagging":
        return ParameterTable(encoder, _bilstm(config, labels, **(options or {})))
    if head != "pretraining" and not language_model:
        labels = _OUTPUTS.get(head, labels)
        row = ParameterRow(
            f"{head} head", f"{labels}·{hidden} + {labels}", labels * hidden + labels
        )
        return ParameterTable(encoder, [row])
    name = "language model" if head == "left-to-right" else "masked LM"
    heads = [
        ParameterRow(f"{name}'s dense", f"{square} + {hidden}", hidden**2 + hidden),
        ParameterRow(f"{name}'s LayerNorm", f"2·{hidden}", 2 * hidden),
        ParameterRow(f"{name}'s output bias", f"{config.vocab_size}", config.vocab_size),
    ]
    if not config.tied:
        heads.append(_table(f"{name}'s output", config.vocab_size, hidden))
    if not language_model:
        heads.append(ParameterRow("next sentence", f"2·{hidden} + 2", 2 * hidden + 2))
    return ParameterTable(encoder, heads)


def _bilstm(config: ModelConfig, labels: int, features: str, lstm_size: int) -> list[ParameterRow]:
    from bertkit.model.features import parse_layers  # the one that needs torch

    choice = parse_layers(features, config.layers)
    size, inputs = lstm_size, choice.size(config.hidden_size)
    rows = [
        ParameterRow(
            f"BiLSTM, layer {number}",
            f"2 × 4·{size}·({inner} + {size} + 2)",
            8 * size * (inner + size + 2),
        )
        for number, inner in ((1, inputs), (2, 2 * size))
    ]
    rows.append(ParameterRow("tagger", f"{labels}·2·{size} + {labels}", labels * 2 * size + labels))
    if choice.how == "weighted":
        weights = len(choice.layers)
        rows.append(ParameterRow("weights of the layers", f"{weights} + 1", weights + 1))
    return rows


def _table(name: str, entries: int, hidden: int) -> ParameterRow:
    return ParameterRow(name, f"{entries} × {hidden}", entries * hidden)
