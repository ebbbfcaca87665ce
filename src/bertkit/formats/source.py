"""Loads a checkpoint of any kind, and tells whether a vocabulary belongs to it, by its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bertkit.errors import UserError
from bertkit.formats.assembly import LoadedCheckpoint
from bertkit.formats.huggingface import load_checkpoint
from bertkit.formats.kinds import kind_of
from bertkit.formats.tensorflow import load_tensorflow
from bertkit.model.batch import FlatBatch
from bertkit.model.config import ModelConfig

PADDED_TO = 8
"""Vocabularies are lengthened to a multiple of this, or of more, to suit matrix products."""
MOST_PADDING = 128


def load_source(
    path: Path,
    head: str | None = None,
    labels: list[str] | None = None,
    head_options: dict[str, Any] | None = None,
    **config_changes: Any,
) -> LoadedCheckpoint:
    """Loads a Hugging Face directory or a TensorFlow checkpoint; arguments as `load_checkpoint`.

    Raises UserError for what cannot be read, and for ONNX, whose graph holds no model to go on
    with.
    """
    kind = kind_of(path)
    if kind == "onnx":
        raise UserError(
            f"{path} is an ONNX model, which cannot be turned back; give what it was made from"
        )
    if kind == "tensorflow":
        return load_tensorflow(path, head, labels, head_options, **config_changes)
    return load_checkpoint(path, head, labels, head_options, **config_changes)


def check_vocabulary(entries: int, config: ModelConfig, file: Path) -> int:
    """How many rows the token embeddings have beyond the vocabulary, all of them padding.

    Args:
        entries: of the vocabulary.
        config: of the model.
        file: where the vocabulary is, for messages.

    Raises:
        UserError: there are fewer embeddings than entries, or more than padding explains.
    """
    extra = config.vocab_size - entries
    hidden = config.hidden_size
    if extra < 0:
        raise UserError(
            f"{file} has {entries:,} entries, but the token embeddings are [{config.vocab_size}, "
            f"{hidden}] and should be [{entries}, {hidden}]; put the vocabulary of this model there"
        )
    if extra and (extra >= MOST_PADDING or config.vocab_size % PADDED_TO):
        raise UserError(
            f"{file} has {entries:,} entries, but the token embeddings are [{config.vocab_size}, "
            f"{hidden}], too many to be padding of [{entries}, {hidden}]; put the vocabulary of "
            "this model there"
        )
    return extra


def probe(config: ModelConfig, seed: int = 0) -> FlatBatch:
    """Random sequences that a model can read, to compare two copies of it."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [min(length, config.max_positions) for length in (3, 11, 40)]
    ids = [
        torch.randint(config.vocab_size, (length,), generator=generator).tolist()
        for length in lengths
    ]
    last = min(2, config.segment_types) - 1
    segments = [[0] * (length // 2) + [last] * (length - length // 2) for length in lengths]
    return FlatBatch.from_sequences(ids, segments)
