"""Named tensors from the weight files of a Hugging Face directory.

Read are `model.safetensors`, its shards through their index, and `pytorch_model.bin`, whose pickle
is opened only in torch's restricted mode, where it can hold nothing but tensors. Old names become
present ones: gamma and beta of LayerNorm, a second copy of the output bias, and the names of a
bare BertModel, which lack `bert.` in front.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bertkit.errors import UserError

WEIGHTS = "model.safetensors"
_PICKLED = "pytorch_model.bin"
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
_SAME_AS = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
_POSITION_IDS = "bert.embeddings.position_ids"
"""A buffer of old files that counts 0, 1, 2, ..."""


def read_weights(directory: Path) -> tuple[Path, dict[str, Tensor]]:
    """All tensors of a directory under their present names, and the file they came from.

    Raises UserError for a directory without weights, and a broken, truncated or unsafe file.
    """
    for name in (WEIGHTS, f"{WEIGHTS}.index.json", _PICKLED, f"{_PICKLED}.index.json"):
        file = directory / name
        if file.is_file():
            break
    else:
        raise UserError(f"no weights in {directory}; expected {WEIGHTS}, its index, or {_PICKLED}")
    tensors: dict[str, Tensor] = {}
    for part in _shards(file) if name.endswith(".index.json") else [file]:
        tensors |= _read_file(part)
    return file, _present_names(tensors)


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{index} is not an index of weights: {error}; copy it again") from error
    for name in names:
        if Path(name).name != name:
            raise UserError(f"{index} names '{name}', a file outside its directory; copy it again")
        if not (index.parent / name).is_file():
            raise UserError(f"{index} names {name}, which is not there; copy the missing file")
    return [index.parent / name for name in names]


def _read_file(file: Path) -> dict[str, Tensor]:
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} is broken or truncated: {error}; copy it again") from error
    except Exception as error:  # torch.load raises many kinds for a broken or unsafe file
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{file} cannot be read as plain weights: {reason[0]}; export it as {WEIGHTS}"
        ) from error
    if not isinstance(tensors, dict):
        raise UserError(f"{file} holds no named tensors; export it as {WEIGHTS}")
    return {name: value for name, value in tensors.items() if isinstance(value, Tensor)}


def _present_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Old names become new ones, and a bare model gets its prefix."""
    bare = not any(name.startswith("bert.") for name in tensors)
    renamed: dict[str, Tensor] = {}
    for name, value in tensors.items():
        for old, new in _OLD_NAMES.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if bare and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        renamed[_SAME_AS.get(name, name)] = value
    renamed.pop(_POSITION_IDS, None)
    return renamed
