"""Named tensors from the weight files of a Hugging Face directory.

Read are `model.safetensors`, its shards through their index, and `pytorch_model.bin`, whose pickle
is opened only in torch's restricted mode, where it can hold nothing but tensors. Old names become
present ones: gamma and beta of LayerNorm, a second copy of the output bias, and the names of a
bare BertModel, which lack `bert.` in front.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.assembly import StoredTensor
from bertkit.formats.kinds import WEIGHTS, weight_file, weight_parts
from bertkit.formats.safetensors import open_safetensors

_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
_BIAS, _DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
_POSITION_IDS = "bert.embeddings.position_ids"
"""A buffer of old files that counts 0, 1, 2, ..."""


def open_weights(directory: Path) -> tuple[Path, dict[str, StoredTensor]]:
    """All tensors of a directory under their present names, and the file they come from.

    Raises UserError for a directory without weights, a broken, truncated or unsafe file, and a
    tensor that is there twice.
    """
    file = weight_file(directory)
    tensors: dict[str, StoredTensor] = {}
    for part in weight_parts(file):
        found = open_safetensors(part) if part.suffix == ".safetensors" else _open_pickle(part)
        for name in sorted(found.keys() & tensors.keys()):
            raise UserError(f"{part} holds {name}, and so does another shard; copy them again")
        tensors |= found
    return file, _present_names(tensors, file)


def _open_pickle(file: Path) -> dict[str, StoredTensor]:
    """Tensors of torch.save; the pickle may name nothing that could run."""
    try:
        _refuse_packed(file)
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file} is broken or truncated: {error}; copy it again") from error
    except Exception as error:  # torch.load raises many kinds for a broken or unsafe file
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{file} cannot be read as plain weights: {reason[0]}; export it as {WEIGHTS}"
        ) from error
    if not isinstance(tensors, dict):
        raise UserError(f"{file} holds no named tensors; export it as {WEIGHTS}")
    return {
        str(name): in_memory(value)
        for name, value in tensors.items()
        if isinstance(value, Tensor) and value.layout == torch.strided
    }


def _refuse_packed(file: Path) -> None:
    """torch.save stores its records as they are; a packed one could unfold to any size."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as opened:
            for record in opened.infolist():
                if record.compress_type != zipfile.ZIP_STORED:
                    raise UserError(
                        f"{file} has packed records, as {record.filename!r}, which torch.save "
                        f"never writes; export it as {WEIGHTS}"
                    )


def in_memory(value: Tensor) -> StoredTensor:
    """A tensor that is read already."""
    return StoredTensor(tuple(value.shape), lambda: value)


def _present_names(tensors: dict[str, StoredTensor], file: Path) -> dict[str, StoredTensor]:
    """Old names become new ones, and a bare model gets its prefix."""
    bare = not any(name.startswith("bert.") for name in tensors)
    renamed: dict[str, StoredTensor] = {}
    for name, value in tensors.items():
        new = name
        for old, present in _OLD_NAMES.items():
            if name.endswith(old):
                new = name.removesuffix(old) + present
        if bare and new.startswith(("embeddings.", "encoder.", "pooler.")):
            new = f"bert.{new}"
        if new in renamed:
            raise UserError(f"{file} holds {new} twice, under an old name too; leave one of them")
        renamed[new] = value
    renamed.pop(_POSITION_IDS, None)
    if _BIAS not in renamed and _DECODER_BIAS in renamed:
        renamed[_BIAS] = renamed[_DECODER_BIAS]
    return renamed
