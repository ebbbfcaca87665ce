"""JSONL, CSV, TSV and Parquet in, one `Raw` document for each object or row out.

The text, title and identity are in the fields that the configuration names; only the text must be
there. CSV is RFC 4180 with a header, its delimiter the one that the header has most of; TSV has no
quoting, as data sets have it. A field that no row has is the user's mistake; a broken row is not,
and is dropped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from bertkit.errors import UserError
from bertkit.extraction.encodings import MARKED, find_encoding
from bertkit.extraction.records import BROKEN, LONGEST, Dropped, Raw
from bertkit.extras import need
from bertkit.text.documents import json_kind, parse_object

_BATCH_ROWS = 64
"""Rows of Parquet that are read at once."""


@dataclass(frozen=True)
class Fields:
    """The names of the fields that hold text, title and identity."""

    text: str
    title: str
    id: str

    def check(self, found: Iterable[str], where: str) -> None:
        """UserError if there is no field of the text among those `found`."""
        names = list(found)
        if self.text not in names:
            listed = ", ".join(names[:8]) or "none"
            raise UserError(
                f"{where}: no column {self.text!r} (it has: {listed}); name it with --text-field"
            )


def to_raw(record: Mapping[str, Any], fields: Fields, source: str, number: int) -> Raw | Dropped:
    """One object or row as a document; `number` is its place in `source`, from 1."""
    place = f"{source}:{number}"
    identity, title = record.get(fields.id), record.get(fields.title)
    named = isinstance(identity, (str, int)) and not isinstance(identity, bool)
    name = str(identity) if named and str(identity) else place
    if fields.text not in record:
        listed = ", ".join(list(record)[:8]) or "none"
        return Dropped(place, BROKEN, f"no field {fields.text!r} (it has: {listed})", source)
    text = record[fields.text]
    if text is None:
        text = ""
    if not isinstance(text, str):
        detail = f"field {fields.text!r} is a {json_kind(text)}, not a text"
        return Dropped(place, BROKEN, detail, source)
    return Raw(
        kind="text",
        id=name,
        title=title if isinstance(title, str) else "",
        source=source,
        content=text,
    )


def text_stream(stream: BinaryIO, encoding: str | None, newline: str | None) -> io.TextIOWrapper:
    """A stream of bytes as text, in the encoding found from its beginning.

    Raises:
        BinaryFile: it does not begin like a text.
    """
    buffered = io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16)
    found = find_encoding(buffered.peek(1 << 16), encoding)
    found = "utf-8-sig" if found == "utf-8" else found
    return io.TextIOWrapper(buffered, encoding=found, errors=MARKED, newline=newline)


def read_jsonl(
    stream: BinaryIO, source: str, encoding: str | None, fields: Fields
) -> Iterator[Raw | Dropped]:
    """The objects of JSONL, one a line."""
    with text_stream(stream, encoding, "\n") as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                record = parse_object(line, "")
            except UserError as error:
                detail = str(error).removeprefix(": ").partition(";")[0]
                yield Dropped(f"{source}:{number}", BROKEN, detail, source)
                continue
            yield to_raw(record, fields, source, number)


def read_csv(
    stream: BinaryIO, source: str, encoding: str | None, fields: Fields, tabs: bool
) -> Iterator[Raw | Dropped]:
    """The rows of CSV, or of TSV where `tabs`; the first row names the columns."""
    csv.field_size_limit(LONGEST)
    with text_stream(stream, encoding, "") as lines:
        first = next(lines, "")
        if not first.strip():
            return
        if tabs:
            options: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        else:
            options = {"delimiter": max(",;\t|", key=first.count), "strict": True}
        rows = csv.reader(_chain(first, lines), **options)
        try:
            header = next(rows)
        except csv.Error as error:
            yield Dropped(source, BROKEN, f"the header: {error}", source, whole=False)
            return
        fields.check(header, source)
        number = 0
        while True:
            number += 1
            place = f"{source}:{number}"
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                rest = "unexpected end" in str(error)  # a quote swallowed all that follows
                what = "a quote opens and nothing closes it; the rest is not read"
                detail = f"row {number}: {what if rest else error}"
                yield Dropped(place, BROKEN, detail, source, whole=not rest)
                continue
            if len(row) == len(header):
                record = dict(zip(header, row, strict=True))
                yield to_raw(record, fields, source, number)
            elif row:
                detail = f"row {number} has {len(row)} fields, the header {len(header)}"
                yield Dropped(place, BROKEN, detail, source)


def _chain(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def read_parquet(path: Path, source: str, fields: Fields) -> Iterator[Raw | Dropped]:
    """The rows of a Parquet file; what cannot be read is one `Dropped` at the end."""
    pyarrow = need("pyarrow", "extract", "Parquet needs")
    parquet = need("pyarrow.parquet", "extract", "Parquet needs")
    number = 0
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            names: Sequence[str] = file.schema_arrow.names
            fields.check(names, source)
            columns = [name for name in (fields.text, fields.title, fields.id) if name in names]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                for record in batch.to_pylist():
                    number += 1
                    yield to_raw(record, fields, source, number)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        detail = f"Parquet is damaged after row {number}: {' '.join(str(error).split())[:200]}"
        yield Dropped(source, BROKEN, detail, source, whole=False)
