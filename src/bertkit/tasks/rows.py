"""Rows: CSV, TSV and JSONL in, records of named values out, one at a time.

Choices worth knowing:
- TSV is read without quoting, as GLUE's files need: MRPC and others have unbalanced quotes.
- CSV is read with quoting (RFC 4180), so a field may hold commas and line breaks. It may be divided
  by semicolons, tabs or bars instead: what the header line has most of.
- Blanks around the names in a header do not count; a name that stands there twice is refused.
- A BOM at the beginning is dropped; blank lines are passed over.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from bertkit.errors import UserError
from bertkit.progress import say
from bertkit.text.documents import broken_utf8

DELIMITERS = ",;\t|"


class Record(dict[str, Any]):
    """The values of one row by name, and where it stands, for messages."""

    where: str


def record(values: dict[str, Any], where: str) -> Record:
    one = Record(values)
    one.where = where
    return one


@dataclass(frozen=True)
class TableForm:
    """What a file of a known data set does not say itself.

    Attributes:
        suffix: what a name that does not end in one of RECORD_SUFFIXES stands for.
        header: names of the columns, for files that have none.
        marks: names of which a first line that is a header has at least one.
        skip_broken: pass over lines with another number of columns (and say how many), as the
            data set's makers do.
    """

    suffix: str = ""
    header: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    skip_broken: bool = False


def read_delimited(
    path: Path, suffix: str, stream: BinaryIO | None = None, form: TableForm | None = None
) -> Iterator[Record]:
    """Yields the rows of a table, whose values are all text.

    Args:
        suffix: ".csv" or ".tsv".
        stream: read this instead; `path` then only names it.
        form: of a known data set's file.

    Raises:
        UserError: no such file, broken UTF-8, broken quotes, a column twice, or a row whose number
            of columns is not the header's.
    """
    lines: Iterator[tuple[int, list[str]]]
    if suffix == ".tsv":
        lines = ((number, line.split("\t")) for number, line in read_lines(path, stream) if line)
    else:
        lines = _csv_lines(path, stream)
    yield from _table(path, lines, form or TableForm())


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


class MissingColumnError(UserError):
    """A column that is not there.

    Attributes:
        option: the option that names it.
    """

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


def no_column(names: Iterable[str], where: str, wanted: str, option: str) -> MissingColumnError:
    """The error of a column that is not there; tells when the table seems divided otherwise."""
    there = list(names)
    hint = f"name the right one with {option}"
    if len(there) == 1:
        other = [char for char in DELIMITERS if char in there[0]]
        if other:
            hint = f"it looks divided by {other[0]!r}: rename it to .csv, or save it with tabs"
    return MissingColumnError(
        f"{where}: no column '{wanted}' (there are: {', '.join(there) or 'none'}); {hint}", option
    )


def _csv_lines(path: Path, stream: BinaryIO | None) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)
    lines = (line + "\n" for _, line in read_lines(path, stream))
    first = next(lines, "")
    unquoted = re.sub('"[^"]*"', "", first)
    delimiter = max(DELIMITERS, key=unquoted.count)  # of equals the first, the comma
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    begun = 1
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
            begun = reader.line_num + 1
    except csv.Error as error:
        place, why = f"{path}, line {begun}", str(error)
        if "new-line" in why:
            raise UserError(
                f"{place}: a carriage return stands alone, outside quotes; save the file with "
                "line ends \\n or \\r\\n"
            ) from None
        if "unexpected end" in why:
            why = "a quote opens in this row and nothing closes it"
        raise UserError(f"{place}: {why}; mend its quotes, or save the table as .tsv") from None


def _table(path: Path, lines: Iterator[tuple[int, list[str]]], form: TableForm) -> Iterator[Record]:
    header: list[str] | None = None
    broken: list[tuple[int, int]] = []
    for number, fields in lines:
        if header is None:
            header = [field.strip() for field in fields]
            if not form.header or set(form.marks) & set(header):
                _refuse_doubles(path, header)
                continue
            header = list(form.header)
        if len(fields) != len(header):
            broken.append((number, len(fields)))
            if form.skip_broken:
                continue
            rest = ((n, len(f)) for n, f in lines if len(f) != len(header))
            raise UserError(f"{path}, {_broken(broken + list(rest), len(header))}; mend them")
        yield record(dict(zip(header, fields, strict=True)), f"{path}, line {number}")
    if broken and header:
        say(f"{path}, {_broken(broken, len(header))}: passed over")


def _refuse_doubles(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise UserError(f"{path}: the header names '{twice[0]}' twice; rename one of the columns")


def _broken(lines: Sequence[tuple[int, int]], columns: int) -> str:
    """A message of lines that have another number of columns: the first three and a count."""
    number, found = lines[0]
    more = ", ".join(f"line {n}: {count}" for n, count in lines[1:3])
    count = f" ({more}; {len(lines):,} such lines)" if more else ""
    return f"line {number}: {found} columns where the header names {columns}{count}"


def read_json_lines(path: Path, stream: BinaryIO | None = None) -> Iterator[Record]:
    """Yields the object of each line of a JSONL file."""
    for number, line in read_lines(path, stream):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); JSONL has one object a line") from None
        if not isinstance(values, dict):
            raise UserError(f"{where}: not a JSON object; JSONL has one object a line")
        yield record(values, where)


def plain_text(value: object) -> str:
    """A string as it is; a number or a truth value as JSON writes it; else what Python calls it."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (bool, int, float, list, dict)):
        text = json.dumps(value, default=str)
    else:  # a date or a decimal of a Parquet column
        text = str(value)
    # half a surrogate pair ("\ud800") is no character: it could be neither tokenized nor printed
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
