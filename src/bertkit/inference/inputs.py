"""Inputs of the three commands: texts, or pairs of texts, from a file or standard input.

Plain text is a text a line, and an empty line is an empty text: every line gets an answer. In
tables and JSONL blank lines are no rows, and an empty text in a row gets an answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.tasks.readers import as_list, text_value
from bertkit.tasks.records import RECORD_SUFFIXES, has_records, read_records
from bertkit.tasks.rows import Record, plain_text, read_lines
from bertkit.tasks.tables import json_line

STANDARD = "-"
"""The name of standard input."""

TextInput = str | tuple[str, str]
WordsInput = TextInput | list[str]
"""A text, a pair of texts, or a sentence that is cut into words."""


@overload
def read_inputs(
    source: str, text: str | None = None, pair: str | None = None, option: str = "--text"
) -> Iterator[TextInput]: ...


@overload
def read_inputs(
    source: str,
    text: str | None = None,
    pair: str | None = None,
    option: str = "--text",
    *,
    words: bool,
) -> Iterator[WordsInput]: ...


def read_inputs(
    source: str,
    text: str | None = None,
    pair: str | None = None,
    option: str = "--text",
    *,
    words: bool = False,
) -> Iterator[WordsInput]:
    """Yields the texts of a source in its order.

    Args:
        source: a file, "-", or "hub:NAME[:CONFIG][:SPLIT]". What `read_records` reads has columns
            or fields, other files are plain text; standard input is plain text unless `text` or
            `pair` names a field: then JSONL.
        text, pair: columns; `text` is "text" when not given.
        option: what the message calls the option that names the column.
        words: whether a text may be a list of words instead.

    Raises:
        UserError: no such file, nothing in it, broken UTF-8, a broken row, a missing column.
    """
    if source == STANDARD and text is None and pair is None:
        path = Path("standard input")
        texts: Iterator[WordsInput] = (line for _, line in read_lines(path, sys.stdin.buffer))
    elif source == STANDARD or has_records(source):
        path, records = open_records(source)
        texts = _from_records(records, text or "text", pair, option, words)
    elif text is not None or pair is not None:
        raise UserError(
            f"{source} is plain text and has no columns; leave {option} out, or give a file that "
            f"ends in {', '.join(RECORD_SUFFIXES)}"
        )
    else:
        path = Path(source)
        texts = (line for _, line in read_lines(path))
    empty = True
    for one in texts:
        empty = False
        yield one
    if empty:
        raise UserError(f"{path} is empty; give it a text on each line, or rows with texts")


def open_records(source: str) -> tuple[Path, Iterator[Record]]:
    """The records of a source, of standard input as JSONL, and what messages call it."""
    if source == STANDARD:
        path = Path("standard input.jsonl")
        return path, read_records(path, stream=sys.stdin.buffer)
    return Path(source), read_records(Path(source))


def _from_records(
    records: Iterable[Record], text: str, pair: str | None, option: str, words: bool
) -> Iterator[WordsInput]:
    for one in records:
        listed = as_list(one.get(text)) if words else None
        if listed is not None:
            if None in listed:
                raise UserError(f"{one.where}: word {listed.index(None) + 1} is null; leave it out")
            yield [plain_text(word) for word in listed]
            continue
        first = text_value(one, (text,), option)
        yield (first, text_value(one, (pair,), "--pair")) if pair else first


@contextmanager
def json_output(output: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that writes one record a line, to a file (whole or absent) or stdout."""
    if output is None:
        yield lambda record: print(json_line(record), end="", flush=False)
        sys.stdout.flush()
        return
    with writing(output) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda record: print(json_line(record), end="", file=file)
