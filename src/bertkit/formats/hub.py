"""Checkpoints by name: a directory that is there, or a model of the Hugging Face hub.

Nothing is fetched unless the user names it, and of a model only what bertkit reads. The package
huggingface_hub is imported when a name is not a path; what it has fetched before it finds again
without a network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.extras import need
from bertkit.formats.kinds import PICKLED, WEIGHTS
from bertkit.progress import say

SHORT_NAMES = {
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "bert-base-cased": "google-bert/bert-base-cased",
    "bert-large-uncased": "google-bert/bert-large-uncased",
    "bert-large-cased": "google-bert/bert-large-cased",
    "bert-base-chinese": "google-bert/bert-base-chinese",
    "bert-base-multilingual-cased": "google-bert/bert-base-multilingual-cased",
    "bert-base-multilingual-uncased": "google-bert/bert-base-multilingual-uncased",
    "bert-large-uncased-whole-word": "google-bert/bert-large-uncased-whole-word-masking",
    "bert-large-cased-whole-word": "google-bert/bert-large-cased-whole-word-masking",
    "bert-base-chinese-whole-word": "hfl/chinese-bert-wwm-ext",
    "bert-tiny-uncased": "google/bert_uncased_L-2_H-128_A-2",
    "bert-mini-uncased": "google/bert_uncased_L-4_H-256_A-4",
    "bert-small-uncased": "google/bert_uncased_L-4_H-512_A-8",
    "bert-medium-uncased": "google/bert_uncased_L-8_H-512_A-8",
}
"""The released checkpoints; any other is named as the hub does, OWNER/NAME."""

_FILES = [
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "modules.json",
    "sentence_bert_config.json",
    "*_Pooling/config.json",
    "*_Dense/*",
]
_SECONDS = 10.0
"""How long to wait for the hub to answer."""


def checkpoint_path(name: str) -> Path:
    """The place of a checkpoint, fetched from the hub where the name is one of its models.

    A path that exists is itself; so is any name that cannot be the hub's, whatever is there.

    Raises:
        UserError: the hub has no such model or cannot be reached and the model was not fetched
            before, or the package huggingface_hub is missing.
    """
    path = Path(name)
    if path.exists() or not is_hub_name(name):
        return path
    return _fetch(SHORT_NAMES.get(name, name))


def is_hub_name(name: str) -> bool:
    """Whether a name that is no path here can be a model of the hub: a short one, or OWNER/NAME
    where no folder OWNER is here."""
    if name in SHORT_NAMES:
        return True
    named = re.fullmatch(r"([A-Za-z0-9][\w.-]*)/[A-Za-z0-9][\w.-]*", name)
    return named is not None and not Path(named[1]).exists()


def _fetch(model: str) -> Path:
    fetching = f"there is no {model} here, and fetching it from the Hugging Face hub needs"
    hub = need("huggingface_hub", "hub", fetching)
    files, error = _listed(hub, model)
    patterns = list(_FILES)
    if files is None:  # perhaps fetched before
        patterns += ["*.safetensors", "*.safetensors.index.json", "pytorch_model*"]
    else:
        safe = any(name.endswith(".safetensors") and "/" not in name for name in files)
        patterns += [WEIGHTS, "model-*.safetensors", f"{WEIGHTS}.index.json"] if safe else []
        patterns += [] if safe else [PICKLED, "pytorch_model-*.bin", f"{PICKLED}.index.json"]
        say(f"{model}: fetching it from the Hugging Face hub, or taking what was fetched before")
    try:
        found = hub.snapshot_download(
            model, allow_patterns=patterns, local_files_only=files is None
        )
    except Exception as failure:  # of many kinds: the network, the disk, the hub
        reason = " ".join(str(error or failure).split())[:200]
        raise UserError(
            f"{model} is no path here and cannot be fetched from the Hugging Face hub ({reason}); "
            "check the name and the network, or give the directory of a checkpoint"
        ) from failure
    return Path(found)


def _listed(hub: Any, model: str) -> tuple[list[str] | None, Exception | None]:
    """The files of a model, or None and why the hub does not tell."""
    try:
        found = hub.HfApi().model_info(model, timeout=_SECONDS)
    except Exception as error:  # of many kinds; what was fetched before may still be used
        return None, error
    return [str(file.rfilename) for file in found.siblings or ()], None
