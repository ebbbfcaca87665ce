"""Files of vectors: NPY, NPZ, Parquet and JSONL, written text by text.

    .npy       [texts, size] float32
    .npz       vectors [rows, size]; of words and tokens also bounds [texts + 1] (text k has rows
               bounds[k]:bounds[k + 1]), starts and ends [rows] (characters of the text, -1 for
               [CLS] and [SEP]), and tokens [rows] (of words the text itself tells)
    .parquet   a row for each vector: vector; of words and tokens also text (its number from 0),
               token or word, start, end
    .jsonl     a line for each text: vector; or tokens or words, spans, vectors

All of them go to the disk as they come, so memory holds no more than the texts being computed. An
array's length stands at its beginning and is known at its end: it is filled in then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from bertkit.errors import UserError
from bertkit.extras import need
from bertkit.files import writing
from bertkit.inference.config import Unit
from bertkit.inference.inputs import json_output

Span = tuple[int, int] | None
Write = Callable[[Sequence["Embedding"]], None]

_HEADER = 128
"""Bytes of an array's header; numpy pads it to a multiple of 64 itself."""


@dataclass(frozen=True)
class Embedding:
    """The vectors of one text.

    Attributes:
        vectors: [1, size] of a text as a whole, [words, size] or [tokens, size]; float32.
        units: the words or tokens.
        spans: where they stand in their text, None for special tokens.
    """

    vectors: np.ndarray
    units: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


def check_output(output: str | None, unit: Unit) -> str:
    """The ending of the output's name.

    Raises:
        UserError: there is no such format, or not for this unit, or pyarrow is missing.
    """
    suffix = Path(output).suffix.lower() if output else ".jsonl"
    known = [".npy"] * (unit == "text") + [".npz", ".parquet", ".jsonl"]
    if suffix not in known:
        endings = f"{', '.join(known[:-1])} or {known[-1]}"
        what = {"text": "texts", "word": "words", "token": "tokens"}[unit]
        raise UserError(f"{output} has no ending for vectors of {what}; use {endings}")
    if suffix == ".parquet":
        _pyarrow()
    return suffix


@contextmanager
def vector_output(output: str | None, unit: Unit, size: int, longest_token: int) -> Iterator[Write]:
    """Yields a function that takes the embeddings of some texts; the file is whole or absent.

    Args:
        output: its name, or None for JSONL on standard output.
        size: numbers in a vector.
        longest_token: characters of the longest entry of the vocabulary.
    """
    suffix = check_output(output, unit)
    if suffix == ".jsonl":
        with json_output(output) as write_line:

            def write_lines(texts: Sequence[Embedding]) -> None:
                for one in texts:
                    write_line(record(one, unit))

            yield write_lines
        return
    with writing(str(output)) as partial:
        if suffix == ".parquet":
            with _parquet(partial, unit, size) as write:
                yield write
        elif suffix == ".npy":
            with partial.open("wb") as file:
                array = _Array(file, np.dtype(np.float32), (size,))

                def write_rows(texts: Sequence[Embedding]) -> None:
                    for one in texts:
                        array.append(one.vectors)

                yield write_rows
                array.finish()
        else:
            with _npz(partial, unit, size, longest_token) as write:
                yield write


def record(embedding: Embedding, unit: Unit) -> dict[str, Any]:
    """A line of JSONL."""
    vectors = [[float(f"{number:.7g}") for number in row] for row in embedding.vectors.tolist()]
    if unit == "text":
        return {"vector": vectors[0]}
    return {f"{unit}s": embedding.units, "spans": embedding.spans, "vectors": vectors}


class _Array:
    """An array in NumPy's own format whose number of rows is known at the end only."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], row: tuple[int, ...] = ()) -> None:
        self.file, self.dtype, self.row = file, dtype, row
        self.rows = 0
        file.write(b"\0" * _HEADER)

    def append(self, values: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        self.rows += len(values)

    def finish(self) -> None:
        """Writes the header and goes to the beginning."""
        values = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.row)}
        text = f"{values}".encode().ljust(_HEADER - 11) + b"\n"
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        self.file.seek(0)


@contextmanager
def _npz(partial: Path, unit: Unit, size: int, longest_token: int) -> Iterator[Write]:
    """The arrays grow in nameless files beside the output and are packed at the end."""
    kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "vectors": (np.dtype(np.float32), (size,))
    }
    if unit != "text":
        kinds |= {name: (np.dtype(np.int64), ()) for name in ("bounds", "starts", "ends")}
    if unit == "token":
        kinds["tokens"] = (np.dtype(f"<U{longest_token}"), ())
    with ExitStack() as stack:
        arrays = {
            name: _Array(
                stack.enter_context(tempfile.TemporaryFile(dir=partial.parent)), dtype, row
            )
            for name, (dtype, row) in kinds.items()
        }

        def write(texts: Sequence[Embedding]) -> None:
            for one in texts:
                arrays["vectors"].append(one.vectors)
                if unit == "text":
                    continue
                spans = [span or (-1, -1) for span in one.spans]
                arrays["starts"].append(np.array([span[0] for span in spans], dtype=np.int64))
                arrays["ends"].append(np.array([span[1] for span in spans], dtype=np.int64))
                arrays["bounds"].append(np.array([arrays["vectors"].rows]))
                if unit == "token":
                    arrays["tokens"].append(np.array(one.units, dtype=np.str_))

        if unit != "text":
            arrays["bounds"].append(np.array([0]))
        yield write
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in arrays.items():
                array.finish()
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(array.file, member, 1 << 20)


@contextmanager
def _parquet(partial: Path, unit: Unit, size: int) -> Iterator[Write]:
    """One row group for each call."""
    arrow = _pyarrow()
    from pyarrow import parquet

    vector = arrow.list_(arrow.float32(), size)
    fields: list[tuple[str, Any]] = [("vector", vector)]
    if unit != "text":
        places = [("start", arrow.int64()), ("end", arrow.int64())]
        fields = [("text", arrow.int64()), (unit, arrow.string()), *places, *fields]
    schema = arrow.schema(fields)
    done = 0

    def write(texts: Sequence[Embedding]) -> None:
        nonlocal done
        rows = np.concatenate([one.vectors for one in texts])
        columns: list[Any] = [
            arrow.FixedSizeListArray.from_arrays(arrow.array(rows.reshape(-1)), size)
        ]
        if unit != "text":
            numbers = np.repeat(np.arange(done, done + len(texts)), [len(t.units) for t in texts])
            spans = [span or (None, None) for one in texts for span in one.spans]
            columns = [
                arrow.array(numbers),
                arrow.array([name for one in texts for name in one.units], arrow.string()),
                arrow.array([start for start, _ in spans], arrow.int64()),
                arrow.array([end for _, end in spans], arrow.int64()),
                *columns,
            ]
        done += len(texts)
        writer.write_table(arrow.Table.from_arrays(columns, schema=schema))

    with parquet.ParquetWriter(os.fspath(partial), schema) as writer:
        yield write


def _pyarrow() -> Any:
    return need("pyarrow", "parquet", "Parquet needs", "or write .npz")
