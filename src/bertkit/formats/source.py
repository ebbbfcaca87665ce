"""What a path is: a Hugging Face directory, a TensorFlow checkpoint or an ONNX file; and loads it.

And whether a vocabulary belongs to it, by its size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from bertkit.errors import UserError
from bertkit.formats.assembly import LoadedCheckpoint
from bertkit.formats.bundle import INDEX_SUFFIX, find_index
from bertkit.formats.huggingface import CONFIG, load_checkpoint
from bertkit.formats.tensorflow import load_tensorflow
from bertkit.formats.weights import WEIGHT_FILES
from bertkit.model.batch import FlatBatch
from bertkit.model.config import ModelConfig

Kind = Literal["huggingface", "tensorflow", "onnx"]
KINDS: dict[Kind, str] = {
    "huggingface": "a Hugging Face directory",
    "tensorflow": "a TensorFlow checkpoint with Google's names",
    "onnx": "an ONNX model",
}
ONNX = "model.onnx"

PADDED_TO = 8
"""Vocabularies are lengthened to a multiple of this, or of more, to suit matrix products."""
MOST_PADDING = 128


def kind_of(path: Path) -> Kind:
    """What lies at a path; raises UserError for what is none of the three."""
    if path.suffix == ".onnx" and path.is_file():
        return "onnx"
    if path.is_dir():
        if (path / CONFIG).is_file() and any((path / name).is_file() for name in WEIGHT_FILES):
            return "huggingface"
        if (path / "variables" / f"variables{INDEX_SUFFIX}").is_file():
            return "tensorflow"
        if any(path.glob(f"*{INDEX_SUFFIX}")):
            return "tensorflow"
        if (path / ONNX).is_file():
            return "onnx"
        if (path / CONFIG).is_file():
            raise UserError(
                f"{path} has a {CONFIG} and no weights; expected {', '.join(WEIGHT_FILES)}"
            )
        raise UserError(
            f"{path} holds no checkpoint; give a Hugging Face directory ({CONFIG} and weights) or "
            f"the directory of a TensorFlow checkpoint (an {INDEX_SUFFIX} file)"
        )
    if not path.exists() and not path.parent.is_dir():
        raise UserError(f"there is no {path}; give the directory of a checkpoint")
    find_index(path)
    return "tensorflow"


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
