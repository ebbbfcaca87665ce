"""Inputs of the three commands: texts, or pairs of texts, from a file or standard input.

Plain text is a text a line, and an empty line is an empty text: every line gets an answer. In
JSONL and CSV blank lines are no rows, and an empty text in a row gets an answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.tasks.rows import TABLE_SUFFIXES, Row, column, read_lines, read_rows
from bertkit.tasks.tables import json_line

STANDARD = "-"
"""The name of standard input."""

TextInput = str | tuple[str, str]


def read_inputs(
    source: str, text: str | None = None, pair: str | None = None, option: str = "--text"
) -> Iterator[TextInput]:
    """Yields the texts of a source in its order.

    Args:
        source: a file, or "-". `.jsonl`, `.csv` and `.tsv` have columns, others are plain text;
            standard input is plain text unless `text` or `pair` names a field: then JSONL.
        text, pair: columns; `text` is "text" when not given.
        option: what the message calls the option that names the column.

    Raises:
        UserError: no such file, nothing in it, broken UTF-8, a broken row, a missing column.
    """
    path, stream = Path(source), None
    if source == STANDARD:
        named = text is not None or pair is not None
        path = Path("standard input.jsonl" if named else "standard input")
        stream = sys.stdin.buffer
    if path.suffix.lower() not in TABLE_SUFFIXES:
        if text is not None or pair is not None:
            raise UserError(
                f"{path} is plain text and has no columns; leave {option} out, or give a .jsonl, "
                ".csv or .tsv file"
            )
        texts: Iterator[TextInput] = (line for _, line in read_lines(path, stream))
    else:
        texts = _from_rows(read_rows(path, stream), text or "text", pair, option)
    empty = True
    for one in texts:
        empty = False
        yield one
    if empty:
        raise UserError(f"{path} is empty; give it a text on each line, or rows with texts")


def _from_rows(
    rows: Iterable[Row], text: str, pair: str | None, option: str
) -> Iterator[TextInput]:
    for row in rows:
        first = column(row, text, option)
        yield (first, column(row, pair, "--pair")) if pair else first


@contextmanager
def json_output(output: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that writes one record a line, to a file (whole or absent) or stdout."""
    if output is None:
        yield lambda record: print(json_line(record), end="", flush=False)
        sys.stdout.flush()
        return
    with writing(output) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda record: print(json_line(record), end="", file=file)
