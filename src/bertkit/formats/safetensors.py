"""A safetensors file opened for reading: one tensor at a time, into memory of its own.

The library checks the header (sizes, places, no gaps); the bytes are read here and not mapped, so
that a file that shrinks meanwhile is an error and not the end of the process, and a model in
memory costs what it has and not the file besides.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.assembly import StoredTensor

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_LENGTH_BYTES = 8


def open_safetensors(file: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name; raises UserError for one that is broken or truncated."""
    try:
        with safe_open(file, "pt"):
            pass
        with open(file, "rb") as opened:
            length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
            header = json.loads(opened.read(length), object_pairs_hook=_once)
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is broken or truncated: {error}; copy it again") from error
    header.pop("__metadata__", None)
    start = _LENGTH_BYTES + length
    return {
        name: StoredTensor(tuple(entry["shape"]), partial(_read, file, name, entry, start))
        for name, entry in header.items()
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in its header")
    return found


def _read(file: Path, name: str, entry: dict[str, Any], start: int) -> Tensor:
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise UserError(
            f"{name} in {file} is of type {entry['dtype']}, which cannot be read; "
            "save it as float32, float16 or bfloat16"
        )
    first, last = entry["data_offsets"]
    try:
        with open(file, "rb") as opened:
            data = np.fromfile(opened, np.uint8, last - first, offset=start + first)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}; copy it again") from error
    if len(data) != math.prod(entry["shape"]) * dtype.itemsize:
        raise UserError(f"{file} is broken or truncated: {name} is not whole; copy it again")
    if not len(data):
        return torch.empty(entry["shape"], dtype=dtype)
    return torch.from_numpy(data).view(dtype).reshape(entry["shape"])
