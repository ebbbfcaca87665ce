"""Questions with their contexts, from a file, for a question-answering model.

.json             SQuAD's form, or records, answered or not
other records     columns "question" and "context" (--text, --pair), and "id" if there is one
-                 standard input: JSONL
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bertkit.errors import UserError
from bertkit.inference.inputs import STANDARD, open_records
from bertkit.tasks.readers import text_value
from bertkit.tasks.records import RECORD_SUFFIXES, has_records
from bertkit.tasks.rows import plain_text
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
    path = Path(source)
    if path.suffix.lower() == ".json" and question is None and context is None:
        yield from ((one.question, one.context, one.id) for one in read_squad(path))
        return
    if source != STANDARD and not has_records(source):
        raise UserError(
            f"{path} is not a file of questions; give SQuAD's .json, or a file with the columns "
            f"question and context that ends in {', '.join(RECORD_SUFFIXES)}"
        )
    path, records = open_records(source)
    number = -1
    for number, row in enumerate(records):
        yield (
            text_value(row, (question or "question",), "--text"),
            text_value(row, (context or "context",), "--pair"),
            plain_text(number if row.get("id") is None else row["id"]),
        )
    if number < 0:
        raise UserError(f"{path} is empty; give it a question and its context on each line")
