"""TensorFlow's checkpoint files, read and written without TensorFlow: named tensors in a bundle.

    bert_model.ckpt.index                  a table: "" -> header, name -> type, shape, place, sum
    bert_model.ckpt.data-00000-of-00001    the tensors' bytes, end to end, in one or more shards

Tensors are read one at a time when they are asked for, each checked against its checksum, so that
what nobody asks for costs nothing, and a whole model little more than itself. Bytes are read, not
mapped: a file that shrinks under a map ends the process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertkit.errors import UserError
from bertkit.formats.crc32c import masked_crc32c
from bertkit.formats.kinds import INDEX_SUFFIX
from bertkit.formats.table import LARGEST, read_table, write_table
from bertkit.formats.wire import bytes_field, fixed32_field, number_field, read_fields

DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    9: torch.int64,
    14: torch.bfloat16,
    19: torch.float16,
}
"""The types of numbers read and written, by TensorFlow's numbers."""
_OTHER_TYPES = {
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    10: "bool",
    17: "uint16",
    18: "complex128",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
}
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_MOST_SHARDS = 99_999  # five digits in a file's name
_MOST_DIMENSIONS = 32
_HEADER = b""


@dataclass(frozen=True)
class Entry:
    """What the index tells of a tensor.

    Attributes:
        dtype: its type, or None for one that is not read.
        type_name: the type in words.
        shape: its size in each dimension.
        shard, offset, size: the number of its data file and its bytes there.
        checksum: the masked CRC-32C of the bytes.
        sliced: whether it is stored in slices under other names, which is not read.
    """

    dtype: torch.dtype | None
    type_name: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool

    @property
    def readable(self) -> bool:
        return self.dtype is not None and not self.sliced


class Bundle:
    """A checkpoint opened for reading.

    Args:
        index: the path of the `.index` file.

    Attributes:
        entries: what the index tells, by name, in the order of names.

    Raises:
        UserError: no such file; an index that is cut off, damaged or contradicts itself; a data
            file that is missing or shorter than the index says.
    """

    def __init__(self, index: str | Path) -> None:
        self.index = Path(index)
        try:
            if self.index.stat().st_size > LARGEST:
                raise ValueError(f"it is larger than any index of a checkpoint ({LARGEST:,} bytes)")
            table = read_table(self.index.read_bytes())
            if _HEADER not in table:
                raise ValueError("it has no header")
            self.shards = _read_header(table.pop(_HEADER))
            self.entries: dict[str, Entry] = {}
            for key, value in table.items():
                if key.startswith(b"\0"):  # the slices of a tensor that has been cut
                    continue
                name = key.decode("utf-8", "backslashreplace")
                if not name.isprintable():
                    raise ValueError(f"a tensor has the impossible name {name[:200]!r}")
                self.entries[name] = _read_entry(name, value, self.shards)
            _check_places(self.entries)
        except FileNotFoundError:
            raise UserError(f"no file {self.index}; give the index of a checkpoint") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(
                f"{self.index} is not a whole TensorFlow index: {reason}; copy it again"
            ) from error
        self._check_data()

    def data_file(self, shard: int) -> Path:
        """The path of a shard, which is always beside the index."""
        stem = self.index.name.removesuffix(INDEX_SUFFIX)
        return self.index.with_name(f"{stem}.data-{shard:05d}-of-{self.shards:05d}")

    def read(self, name: str) -> Tensor:
        """A tensor, on the CPU, in its stored type and shape.

        Raises UserError for one that is damaged, of another type, or in slices.
        """
        entry = self.entries[name]
        file = self.data_file(entry.shard)
        if entry.dtype is None or entry.sliced:
            what = f"of type {entry.type_name}" if entry.dtype is None else "cut into slices"
            raise UserError(
                f"{name} in {self.index} is {what}, which cannot be read; save it whole"
            )
        try:
            with open(file, "rb") as opened:
                data = np.fromfile(opened, np.uint8, entry.size, offset=entry.offset)
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}; copy it again") from error
        if len(data) != entry.size or masked_crc32c(data.data) != entry.checksum:
            raise UserError(f"{name} in {file} does not agree with its checksum; copy it again")
        if not entry.size:
            return torch.empty(entry.shape, dtype=entry.dtype)
        return torch.from_numpy(data).view(entry.dtype).reshape(entry.shape)

    def _check_data(self) -> None:
        """That each data file in use is there and long enough."""
        ends: dict[int, int] = {}
        for entry in self.entries.values():
            ends[entry.shard] = max(ends.get(entry.shard, 0), entry.offset + entry.size)
        for shard, end in sorted(ends.items()):
            file = self.data_file(shard)
            if not file.is_file():
                raise UserError(f"{self.index} needs {file.name}, which is not beside it; copy it")
            if file.stat().st_size < end:
                raise UserError(
                    f"{file} has {file.stat().st_size:,} bytes and its index needs {end:,}; "
                    "it is cut off or belongs to another index: copy it again"
                )


def _read_header(data: bytes) -> int:
    """The number of shards (BundleHeaderProto)."""
    shards = 0
    for number, value in read_fields(data):
        if number == 1 and isinstance(value, int):
            shards = value
        elif number == 2 and value != 0:
            raise ValueError("its numbers are stored with the highest byte first")
    if not 1 <= shards <= _MOST_SHARDS:
        raise ValueError(f"its header tells of {shards} data files")
    return shards


def _read_entry(name: str, data: bytes, shards: int) -> Entry:
    """BundleEntryProto: 1 type, 2 shape, 3 shard, 4 offset, 5 size, 6 checksum, 7 slices."""
    numbers = dict.fromkeys((1, 3, 4, 5, 6), 0)
    shape: tuple[int, ...] = ()
    sliced = False
    for number, value in read_fields(data):
        if isinstance(value, int) and number in numbers:
            numbers[number] = value
        elif number == 2 and isinstance(value, bytes):
            shape = _read_shape(value)
        elif number == 7:
            sliced = True
    kind, shard, offset, size, checksum = numbers.values()
    dtype = DTYPES.get(kind)
    if min(*shape, shard, offset, size, 0) < 0 or len(shape) > _MOST_DIMENSIONS or shard >= shards:
        raise ValueError(f"{name} has an impossible shape or place")
    if dtype is not None and not sliced and math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} of shape {list(shape)} cannot have {size} bytes")
    type_name = str(dtype).removeprefix("torch.") if dtype else _OTHER_TYPES.get(kind, f"{kind}")
    return Entry(dtype, type_name, shape, shard, offset, size, checksum, sliced)


def _read_shape(data: bytes) -> tuple[int, ...]:
    """TensorShapeProto: 2 a dimension, of which 1 is the size."""
    shape = []
    for number, dimension in read_fields(data):
        if number == 2 and isinstance(dimension, bytes):
            sizes = [value for field, value in read_fields(dimension) if field == 1]
            size = sizes[-1] if sizes else 0
            if not isinstance(size, int):
                raise ValueError("a shape is damaged")
            shape.append(size)
    return tuple(shape)


def _check_places(entries: Mapping[str, Entry]) -> None:
    """That no two tensors share bytes, so that reading all never takes more than the files hold."""
    end = (0, 0)
    for name, entry in sorted(
        entries.items(), key=lambda item: (item[1].shard, item[1].offset, item[1].size)
    ):
        if entry.size and (entry.shard, entry.offset) < end:
            raise ValueError(f"{name} shares its bytes with another tensor")
        if entry.size:
            end = (entry.shard, entry.offset + entry.size)


def write_bundle(prefix: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes `PREFIX.data-00000-of-00001` and `PREFIX.index`, as TensorFlow's saver does.

    Args:
        prefix: the path without the endings; its directory exists.
        tensors: of the types in `DTYPES`, on any device; a view is made contiguous by itself,
            one tensor at a time.

    Raises:
        UserError: a tensor of another type, or an empty name.
    """
    prefix = Path(prefix)
    header = number_field(1, 1) + bytes_field(3, number_field(1, 1))  # one shard; version 1
    index = [(_HEADER, header)]
    by_key = {name.encode(): tensor for name, tensor in tensors.items()}
    offset = 0
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        for key, tensor in sorted(by_key.items()):
            if tensor.dtype not in _NUMBERS or not key:
                raise UserError(
                    f"'{key.decode()}' of type {tensor.dtype} cannot be written; "
                    "convert it to float32"
                )
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            data = flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")
            file.write(data)
            dimensions = b"".join(bytes_field(2, number_field(1, size)) for size in tensor.shape)
            entry = (
                number_field(1, _NUMBERS[tensor.dtype])
                + bytes_field(2, dimensions)
                + number_field(4, offset)
                + number_field(5, len(data))
                + fixed32_field(6, masked_crc32c(data))
            )
            index.append((key, entry))
            offset += len(data)
    Path(f"{prefix}{INDEX_SUFFIX}").write_bytes(write_table(index))
