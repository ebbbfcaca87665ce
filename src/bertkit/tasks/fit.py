"""Whether a tokenizer belongs to a model: the vocabulary's size and casing (a padded one does)."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from bertkit.formats.source import check_vocabulary
from bertkit.model.config import ModelConfig
from bertkit.progress import say
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.tokenizer_files import FAST, VOCABULARY, casing_warning


def check_fit(tokenizer: Tokenizer, model: nn.Module, place: Path, quiet: bool = False) -> int:
    """How many token embeddings are padding after the vocabulary's last entry.

    Says a word where the casing is suspicious: such a model loads and answers badly.

    Args:
        tokenizer, model: that are to work together.
        place: the vocabulary, or the directory that it is in.

    Raises:
        UserError: the vocabulary is longer than the embeddings, or shorter by more than padding.
    """
    file = place
    if place.is_dir():
        file = place / (VOCABULARY if (place / VOCABULARY).is_file() else FAST)
    config = model.config
    assert isinstance(config, ModelConfig)
    extra = check_vocabulary(len(tokenizer), config, file)
    warning = casing_warning(tokenizer.vocabulary, tokenizer.lower_case)
    if warning:
        say(f"note on {file}: {warning}", quiet)
    return extra
