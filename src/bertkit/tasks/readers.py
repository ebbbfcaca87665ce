"""Readers of labelled texts: rows with a column for the text, one for the label and, for pairs,
one for the second text (see records.py for the kinds of files). Words are read in word_readers.py.

Labels that cannot be used are counted, and one message names the first three.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import UserError
from bertkit.progress import say
from bertkit.tasks.records import RECORD_SUFFIXES, hub_split, is_hub, read_records
from bertkit.tasks.rows import Record, TableForm, no_column, plain_text
from bertkit.tasks.task import Columns, Task

MOST = float(np.finfo(np.float32).max)
"""The largest score that a model can learn."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, and what is right about it.

    Attributes:
        label: a class, or a score as it is written; "" when it is not known.
        labels: of multi-label classification, each that holds; None when they are not known.
        id: the example's name in its file, or "".
    """

    text: str
    pair: str | None = None
    label: str = ""
    labels: tuple[str, ...] | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class WordsExample:
    """The words of a sentence.

    Attributes:
        tags: [words], empty when they are not known.
        text: what the words were cut from, or None: then it is the words with blanks between.
        offsets: [words] where each word starts and ends in `text`.
        document: number of its document in the file, or None where the file marks none.
    """

    words: list[str]
    tags: list[str]
    text: str | None = None
    offsets: list[tuple[int, int]] | None = None
    document: int | None = None


@dataclass(frozen=True)
class Layout:
    """Which columns of a table mean what; of several names the first that is there.

    Attributes:
        names: label in the file -> the name it goes by. Where given, other labels are refused.
        without: values of the label that say that there is none: such rows are passed over, or
            answered where they need no label.
        id: columns of the example's name.
        form: what the file does not say itself.
    """

    text: tuple[str, ...] = ("text",)
    pair: tuple[str, ...] = ()
    label: tuple[str, ...] = ("label",)
    names: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    id: tuple[str, ...] = ("index", "id", "idx")
    form: TableForm | None = None


class Mistakes:
    """Rows that cannot be used: their number, and the first three by name."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []

    def add(self, where: str, what: str) -> None:
        self.count += 1
        if len(self._first) < 3:
            self._first.append(f"{where}: {what}")

    def __str__(self) -> str:
        more = f" (and {self.count - 3:,} more)" if self.count > 3 else ""
        return "; ".join(self._first) + more

    def refuse(self, advice: str) -> None:
        """Raises UserError where there are any."""
        if self.count:
            raise UserError(f"{self}; {advice}")


def read_table(
    path: Path,
    columns: Columns,
    layout: Layout = Layout(),
) -> list[TextExample]:
    """Reads texts with one label each.

    Raises:
        UserError: whatever `read_records` refuses; a missing column; labels that are empty or
            not of the task; no rows.
    """
    layout = with_columns(layout, columns)
    mistakes = Mistakes()
    passed_over = Mistakes()
    known = set(layout.names.values())

    def label_of(row: Record) -> str | None:
        value = gold(row, layout, columns)
        if value is None:
            return ""
        if isinstance(value, (list, dict)):
            mistakes.add(row.where, "the label is a list (--task multi-label takes lists)")
            return ""
        label = plain_text(value).strip() if value != "" else ""
        if label in layout.without:
            if columns.unlabeled:
                return ""
            passed_over.add(row.where, label)
            return None
        if not label and not columns.unlabeled:
            mistakes.add(row.where, "the label is empty")
        elif label and layout.names and label not in known and label not in layout.names:
            among = ", ".join(f"{v} ({n})" if v != n else v for v, n in layout.names.items())
            mistakes.add(row.where, f"the label '{label}' is none of {among}")
        return layout.names.get(label, label)

    examples = []
    for row, text, pair in text_rows(path, layout, columns):
        label = label_of(row)
        if label is not None:
            examples.append(TextExample(text, pair, label, id=_id(row, layout)))
    mistakes.refuse("give every example a label that fits")
    if passed_over.count:
        say(f"rows without an agreed label are passed over: {passed_over}")
    return some(examples, path)


def read_scores(
    path: Path,
    columns: Columns,
    layout: Layout = Layout(),
) -> list[TextExample]:
    """Reads texts with a number each, which stays in `label` as it is written.

    Raises:
        UserError: as `read_table`; a score that is no finite number.
    """
    layout = with_columns(layout, columns)
    mistakes = Mistakes()
    examples = []
    for row, text, pair in text_rows(path, layout, columns):
        value = gold(row, layout, columns)
        label = "" if value is None else plain_text(value).strip()
        if columns.unlabeled and label in layout.without:
            label = ""
        number = as_number(label)
        if number is not None and abs(number) > MOST:
            mistakes.add(row.where, f"the score {label} is beyond {MOST:g}")
        elif (label or not columns.unlabeled) and number is None:
            said = f"the score '{label}' is" if label else "the score is empty or NaN,"
            mistakes.add(row.where, f"{said} not a finite number")
        examples.append(TextExample(text, pair, label, id=_id(row, layout)))
    mistakes.refuse("mend or leave out these rows")
    return some(examples, path)


def read_label_lists(
    path: Path,
    columns: Columns,
    layout: Layout = Layout(),
) -> list[TextExample]:
    """Reads texts with any number of labels each: a list, or a cell divided by a delimiter.

    Raises:
        UserError: as `read_table`; labels that are neither a list nor text.
    """
    layout = with_columns(layout, columns)
    mistakes = Mistakes()
    examples = []
    for row, text, pair in text_rows(path, layout, columns):
        value = gold(row, layout, columns)
        labels = None if value is None else label_list(value, columns.delimiter)
        name = _named(row, layout.label)
        if name and row[name] is None and not columns.unlabeled:
            mistakes.add(row.where, "the labels are null (an empty list says that none holds)")
        elif labels is None and value is not None:
            mistakes.add(row.where, f"{value!r} is no list of labels")
        examples.append(TextExample(text, pair, labels=labels, id=_id(row, layout)))
    mistakes.refuse("give a list, or labels in one cell and --label-delimiter")
    return some(examples, path)


def label_list(value: Any, delimiter: str | None) -> tuple[str, ...] | None:
    """The labels of a cell in their order, each once; None where it holds no labels.

    >>> label_list('["a", "b"]', None), label_list("a; b", ";"), label_list("", ";")
    (('a', 'b'), ('a', 'b'), ())
    """
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("[") and text.endswith("]"):
            value = as_list(text)
        elif delimiter:
            value = text.split(delimiter)
        else:
            value = [text]
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(one, (str, int, float)) for one in value
    ):
        return None
    stripped = (plain_text(one).strip() for one in value)
    return tuple(dict.fromkeys(one for one in stripped if one))


def as_list(value: Any) -> list[Any] | None:
    """A list, or what a cell holds as a JSON list or as Python writes lists; else None.

    >>> as_list('["a", "b"]'), as_list("['a', 'b']"), as_list("a")
    (['a', 'b'], ['a', 'b'], None)
    """
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                return None
    return value if isinstance(value, list) else None


def as_number(text: str) -> float | None:
    """The finite number that a text is, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def text_rows(path: Path, layout: Layout, columns: Columns) -> list[tuple[Record, str, str | None]]:
    """(row, text, second text or None) of each row of a table.

    Raises:
        UserError: no such columns; rows that lack what the first one has, counted.
    """
    rows = []
    needed = [names for names in (layout.text, layout.pair) if names]
    if not columns.unlabeled:
        needed.append(layout.label)
    mistakes = Mistakes()
    first: Record | None = None
    for row in read_records(path, layout.form):
        first = row if first is None else first
        lacking = [
            name for names in needed if (name := _named(first, names)) and not _named(row, names)
        ]
        if lacking:
            mistakes.add(row.where, f"no '{lacking[0]}'")
            continue
        text = text_value(row, layout.text, "--text")
        pair = text_value(row, layout.pair, "--pair") if layout.pair else None
        rows.append((row, text, pair))
    mistakes.refuse("give every row what the first one has")
    return rows


def _named(row: Record, names: Sequence[str]) -> str | None:
    """The first of these columns that a row has."""
    return next((name for name in names if name in row), None)


def value_of(row: Record, names: Sequence[str], option: str) -> Any:
    """A row's value in the first column of these names that it has; "" where it is null or NaN."""
    name = _named(row, names)
    if name is None:
        raise no_column(row, row.where, names[0], option)
    value = row[name]
    return "" if value is None or value != value else value


def text_value(row: Record, names: Sequence[str], option: str) -> str:
    """A row's text; UserError where it is a list or an object."""
    value = value_of(row, names, option)
    if isinstance(value, (list, dict)):
        raise UserError(
            f"{row.where}: no text but a {type(value).__name__} in the column; "
            f"name another with {option}"
        )
    return plain_text(value)


def gold(row: Record, layout: Layout, columns: Columns) -> Any:
    """The value of the label; None where it is not known and need not be."""
    if columns.unlabeled and _named(row, layout.label) is None:
        return None
    value = value_of(row, layout.label, "--label")
    return None if value == "" and columns.unlabeled else value


def with_columns(layout: Layout, columns: Columns) -> Layout:
    """The layout with the columns that the user named."""
    given: dict[str, Any] = {}
    if columns.text:
        given["text"] = (columns.text,)
    if columns.pair:
        given["pair"] = (columns.pair,)
    if columns.label:
        given["label"] = (columns.label,)
    return replace(layout, **given)


def some(examples: list[Any], path: Path) -> list[Any]:
    """The examples; UserError where there are none."""
    if not examples:
        raise UserError(f"{path} has no examples; give a file with a header and rows")
    return examples


def _id(row: Record, layout: Layout) -> str:
    names = (name for name in layout.id if row.get(name) is not None)
    return next((plain_text(row[name]) for name in names), "")


def find_file(task: Task, folder: Path, split: str) -> Path | None:
    """The file of a split in a data folder, or the hub's name of it, or None."""
    if is_hub(folder):
        return hub_split(str(folder), split)
    for name in task.files.get(split, ()):
        found = sorted(folder.glob(name)) if "*" in name else [folder / name]
        if len(found) > 1:
            option = f"--{split}" if split in ("train", "dev") else "--data"
            raise UserError(
                f"{folder} has several {split} files ({', '.join(one.name for one in found)}); "
                f"name one with {option}"
            )
        if found and found[0].is_file():
            return found[0]
    return None


def require_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in a data folder, or a UserError that names what was looked for."""
    path = find_file(task, folder, split)
    if path is None:
        if not task.files.get(split):
            raise UserError(
                f"{task.name} has no {split} file; its splits are {', '.join(task.files)}"
            )
        if not is_hub(folder) and not folder.is_dir():
            raise UserError(f"there is no {folder}; give the task's folder, or a file of examples")
        there = f"has no {split} split" if is_hub(folder) else "has none of them"
        raise UserError(
            f"no {split} file for {task.name}: looked for {', '.join(task.files[split])} in "
            f"{folder}, which {there}"
        )
    return path


def own_files(suffixes: Sequence[str] = RECORD_SUFFIXES) -> dict[str, tuple[str, ...]]:
    """File names of the three splits of one's own data: train.csv, dev.csv, validation.csv, ..."""
    names = {"train": ("train",), "dev": ("dev", "validation", "valid", "val"), "test": ("test",)}
    return {
        split: tuple(name + suffix for name in called for suffix in suffixes)
        for split, called in names.items()
    }


def split_files(pattern: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """File names of the three splits from patterns such as "{split}.tsv"."""
    return {
        split: tuple(name.format(split=split) for name in pattern)
        for split in ("train", "dev", "test")
    }
