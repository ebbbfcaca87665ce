"""Readers: the files of a task in, labelled examples out.

classification   .tsv, .csv or .jsonl with a column for the text, one for the label and,
                 for pairs, one for the second text
tagging          CoNLL columns: a word a line, its tag in the last column, a blank line after
                 each sentence; columns divided by blanks or tabs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertkit.errors import UserError
from bertkit.tasks.metrics import to_iob2
from bertkit.tasks.rows import column, read_lines, read_rows
from bertkit.tasks.task import Columns, Task

DOCUMENT_START = "-DOCSTART-"
"""CoNLL-2003 marks a new document with a sentence of this one word."""

TABLES = ("{split}.tsv", "{split}.csv", "{split}.jsonl")


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, and its label ("" when it is not known)."""

    text: str
    pair: str | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class WordsExample:
    """The words of a sentence.

    Attributes:
        tags: [words], empty when they are not known.
        text: what the words were cut from, or None: then it is the words with blanks between.
        offsets: [words] where each word starts and ends in `text`.
    """

    words: list[str]
    tags: list[str]
    text: str | None = None
    offsets: list[tuple[int, int]] | None = None


def read_table(
    path: Path,
    columns: Columns,
    text: str = "text",
    label: str = "label",
    names: Mapping[str, str] | None = None,
) -> list[TextExample]:
    """Reads labelled texts.

    Args:
        text, label: the columns' names where the user gives none.
        names: label in the file -> the name it goes by; others stay as they are.

    Raises:
        UserError: whatever `read_rows` refuses; a missing column; an empty label; no rows.
    """
    examples = []
    text, label = columns.text or text, columns.label or label
    for row in read_rows(path):
        value = column(row, label, "--label").strip()
        if not value:
            raise UserError(f"{row.where}: the label is empty; give every example one")
        examples.append(
            TextExample(
                text=column(row, text, "--text"),
                pair=column(row, columns.pair, "--pair") if columns.pair else None,
                label=names.get(value, value) if names else value,
            )
        )
    if not examples:
        raise UserError(f"{path} has no examples; give a file with a header and rows")
    return examples


def read_columns(path: Path, columns: Columns) -> list[WordsExample]:
    """Reads tagged sentences; tags come out as IOB2 whichever scheme the file uses.

    Raises:
        UserError: broken UTF-8, a line without a tag, no sentences.
    """
    examples = []
    words: list[str] = []
    tags: list[str] = []

    def finish() -> None:
        if words:
            examples.append(WordsExample(list(words), to_iob2(tags)))
        words.clear()
        tags.clear()

    for number, line in read_lines(path):
        if not line.strip(" \t"):
            finish()
        elif not line.startswith(DOCUMENT_START):
            # only blanks and tabs divide: U+3000 and its kind may be a word of its own
            fields = line.replace("\t", " ").rstrip(" ").split(" ")
            if len(fields) < 2:
                raise UserError(
                    f"{path}, line {number}: a word without a tag; "
                    "give a word and its tag on each line and a blank line after each sentence"
                )
            words.append(fields[0])
            tags.append(fields[-1])
    finish()
    if not examples:
        raise UserError(f"{path} has no sentences; give a word and its tag on each line")
    return examples


def find_file(task: Task, folder: Path, split: str) -> Path | None:
    """The file of a split in a data folder, or None."""
    for name in task.files[split]:
        if (folder / name).is_file():
            return folder / name
    return None


def require_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in a data folder, or a UserError that names what was looked for."""
    path = find_file(task, folder, split)
    if path is None:
        there = "does not exist" if not folder.is_dir() else "has none of them"
        raise UserError(
            f"no {split} file for {task.name}: looked for {', '.join(task.files[split])} in "
            f"{folder}, which {there}"
        )
    return path


def split_files(pattern: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """File names of the three splits from patterns such as "{split}.tsv"."""
    return {
        split: tuple(name.format(split=split) for name in pattern)
        for split in ("train", "dev", "test")
    }
