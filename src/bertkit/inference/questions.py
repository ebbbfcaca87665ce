"""Questions with their contexts, from a file, for a question-answering model.

.json                 SQuAD's form, answered or not
.jsonl, .csv, .tsv    columns "question" and "context" (--text, --pair), and "id" if there is one
-                     standard input: JSONL
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bertkit.errors import UserError
from bertkit.inference.inputs import STANDARD
from bertkit.tasks.rows import TABLE_SUFFIXES, column, read_rows
from bertkit.tasks.squad import read_squad

QuestionInput = tuple[str, str, str]
"""Question, context, id."""


def read_questions(
    source: str, question: str | None = None, context: str | None = None
) -> Iterator[QuestionInput]:
    """Yields the questions of a source in its order.

    Args:
        question, context: names of the columns.

    Raises:
        UserError: no such file, another ending, nothing in it, or a broken row.
    """
    path, stream = Path(source), None
    if source == STANDARD:
        path, stream = Path("standard input.jsonl"), sys.stdin.buffer
    suffix = path.suffix.lower()
    if suffix == ".json":
        if question or context:
            raise UserError("SQuAD files have no columns; leave --text and --pair out")
        yield from ((one.question, one.context, one.id) for one in read_squad(path))
        return
    if suffix not in TABLE_SUFFIXES:
        raise UserError(
            f"{path} is not a file of questions; give SQuAD's .json, or .jsonl, .csv or .tsv with "
            "the columns question and context"
        )
    number = -1
    for number, row in enumerate(read_rows(path, stream)):
        yield (
            column(row, question or "question", "--text"),
            column(row, context or "context", "--pair"),
            row.get("id", str(number)),
        )
    if number < 0:
        raise UserError(f"{path} is empty; give it a question and its context on each line")
