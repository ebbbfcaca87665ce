"""Tables of text: CSV, TSV and JSONL in, rows of named columns out, one at a time.

Choices worth knowing:
- TSV is read without quoting, as GLUE's files need: MRPC and others have unbalanced quotes.
- CSV is read with quoting (RFC 4180), so a field may hold commas and line breaks.
- In JSONL a number or a truth value becomes its text, so labels may be written 0 or "0".
- A BOM at the beginning is dropped; blank lines are passed over.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from bertkit.errors import UserError
from bertkit.text.documents import JSONL_SUFFIXES, broken_utf8

TABLE_SUFFIXES = frozenset({".csv", ".tsv"}) | JSONL_SUFFIXES


class Row(dict[str, str]):
    """The columns of one row by name, and where it stands, for messages."""

    where: str


def read_rows(path: Path, stream: BinaryIO | None = None) -> Iterator[Row]:
    """Yields the rows of a file; the ending of its name says what it is.

    Args:
        path: `.csv`, `.tsv`, `.jsonl` (or another spelling of it).
        stream: read this instead; `path` then only names it.

    Raises:
        UserError: no such file, another ending, broken UTF-8, bad JSON or a row whose number of
            columns is not the header's.
    """
    suffix = path.suffix.lower()
    if suffix in JSONL_SUFFIXES:
        yield from _json_rows(path, stream)
    elif suffix == ".tsv":
        lines = ((number, line.split("\t")) for number, line in read_lines(path, stream) if line)
        yield from _table(path, lines)
    elif suffix == ".csv":
        yield from _table(path, _csv_lines(path, stream))
    else:
        raise UserError(
            f"{path} does not end in .tsv, .csv or .jsonl, so its columns are unknown; rename it"
        )


def read_lines(path: Path, stream: BinaryIO | None = None) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line without its end) of a UTF-8 file.

    Only "\\n" and "\\r\\n" end a line: U+2028 and other odd ones may stand in a text.
    """
    with _opened(path, stream) as lines:
        for number, raw in enumerate(lines, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                if path.is_file():
                    raise broken_utf8(path) from None
                raise UserError(
                    f"{path}, line {number}: not UTF-8 at byte {error.start} of the line; "
                    "convert it to UTF-8"
                ) from None
            yield number, line.removesuffix("\n").removesuffix("\r")


def _opened(path: Path, stream: BinaryIO | None) -> AbstractContextManager[BinaryIO]:
    """The file, closed at the end; or the stream, which stays open."""
    if stream is not None:
        return nullcontext(stream)
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the name") from None


def column(row: Row, name: str, option: str) -> str:
    """A row's column; `option` is the option that names it, for the message."""
    if name not in row:
        raise UserError(
            f"{row.where}: no column '{name}' (there are: {', '.join(row) or 'none'}); "
            f"name the right one with {option}"
        )
    return row[name]


def _csv_lines(path: Path, stream: BinaryIO | None) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((line + "\n" for _, line in read_lines(path, stream)), strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: {error}; mend its quotes, or save the table as .tsv"
        ) from None


def _table(path: Path, lines: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    header: list[str] | None = None
    for number, fields in lines:
        if header is None:
            header = fields
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{path}, line {number}: {len(fields)} columns where the header names "
                f"{len(header)}; mend the line"
            )
        row = Row(zip(header, fields, strict=True))
        row.where = f"{path}, line {number}"
        yield row


def _json_rows(path: Path, stream: BinaryIO | None) -> Iterator[Row]:
    for number, line in read_lines(path, stream):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); JSONL has one object a line") from None
        if not isinstance(record, dict):
            raise UserError(f"{where}: not a JSON object; JSONL has one object a line")
        row = Row({name: _text(value) for name, value in record.items() if _is_plain(value)})
        row.where = where
        yield row


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    # half a surrogate pair ("\ud800") is no character: it could be neither tokenized nor printed
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
