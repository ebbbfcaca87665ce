"""Question-answering data: SQuAD's JSON in, questions with their contexts out (paper, 4.2 and 4.3).

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}],
         "is_impossible": false}]}]}]}

SQuAD 1.1 and 2.0, CMRC 2018 (its SQuAD-style files), DRCD and one's own data come in this form.
Records with the fields context, question and answers, as on the hub, are read as well.

Choices worth knowing:
- `answer_start` counts Unicode characters of the untouched context, from 0.
- Training takes the first answer of a question that stands in the context where it says. A
  question with none is not trained on: such questions are counted and the first three named.
  Scoring compares texts, so there every question counts.
- An id is its text, whether it is written "7" or 7; a question without one gets its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.tasks.readers import Mistakes
from bertkit.tasks.records import is_hub, read_records, read_text

FORM = 'SQuAD files are {"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}'


@dataclass(frozen=True, slots=True)
class Answer:
    """A right answer, and its first character in the context."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context.

    Attributes:
        answers: the right ones; empty when there is none; None when they are not known.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None

    def trained_answer(self) -> Answer | None:
        """The first answer that stands in the context where it says, or None."""
        for answer in self.answers or ():
            if _fault(self.context, answer) is None:
                return answer
        return None


def read_squad(path: Path) -> list[QuestionExample]:
    """Reads a file in SQuAD's form, or records, answered or not.

    Raises:
        UserError: no such file, not UTF-8, not JSON, not of this form (with the place in the
            file), the same id twice, or no question.
    """
    document = None
    if path.suffix.lower() == ".json" and not is_hub(path):
        document = _document(path)
    if document is None or _are_records(document):
        examples = list(_recorded(path))
    else:
        examples = list(_questions(document, path))
    if not examples:
        raise UserError(f"{path} has no questions; {FORM}")
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise UserError(
                f"{path} has the id '{example.id}' twice; predictions go by it: give each "
                "question its own"
            )
        seen.add(example.id)
    return examples


def without_lost_answers(
    examples: Sequence[QuestionExample],
) -> tuple[list[QuestionExample], Mistakes]:
    """The questions that can be trained on, and the others: their answers do not stand in their
    contexts."""
    kept: list[QuestionExample] = []
    lost = Mistakes()
    for example in examples:
        if not example.answers or example.trained_answer() is not None:
            kept.append(example)
        else:
            lost.add(example.id, str(_fault(example.context, example.answers[0])))
    return kept, lost


def _fault(context: str, answer: Answer) -> str | None:
    """Why an answer is not in its context where it says, or None when it is."""
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return None if answer.text.strip() else "the answer is empty"
    if len(answer.text) > len(context):
        return f"the answer has {len(answer.text)} characters, the context {len(context)}"
    return f"'{_short(answer.text)}' is not at {answer.start}"


def _short(text: str, most: int = 30) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _document(path: Path) -> Any:
    """The value in a JSON file, or None where it holds several: one a line."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            return None
        raise UserError(f"{path}: not JSON ({error}); {FORM}") from None


def _questions(document: Any, path: Path) -> Iterator[QuestionExample]:
    number = 0
    first = document[0] if isinstance(document, list) and document else None
    if isinstance(first, dict) and "context_text" in first:
        raise UserError(
            f"{path} is in CMRC's own form; give the file of the same name in SQuAD style, "
            "which has answer_start"
        )
    if not isinstance(document, dict):
        raise UserError(f"{path}: a {_kind(document)} where an object belongs; {FORM}")
    for a, article in enumerate(_list(document, "data", f"{path}, top")):
        at = f"{path}, data[{a}]"
        for p, paragraph in enumerate(_list(article, "paragraphs", at)):
            place = f"{at}.paragraphs[{p}]"
            context = _text(paragraph, "context", place)
            for q, qa in enumerate(_list(paragraph, "qas", place)):
                where = f"{place}.qas[{q}]"
                question = _text(qa, "question", where)
                name = _name(qa, number)
                number += 1
                yield QuestionExample(name, question, context, _answers(qa, where))


def _are_records(document: Any) -> bool:
    """Whether a JSON file is a list of records, or one, instead of SQuAD's tree."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and {"context", "question"} <= first.keys()


def _recorded(path: Path) -> Iterator[QuestionExample]:
    for number, one in enumerate(read_records(path)):
        values = dict(one)
        answers = values.get("answers")
        if isinstance(answers, dict):  # the hub's form: a list of each field
            texts, starts = (_list(answers, key, one.where) for key in ("text", "answer_start"))
            values["answers"] = [
                {"text": text, "answer_start": start}
                for text, start in zip(texts, starts, strict=False)
            ]
        context = _text(values, "context", one.where)
        question = _text(values, "question", one.where)
        answers_of_one = _answers(values, one.where)
        yield QuestionExample(_name(values, number), question, context, answers_of_one)


def _name(question: dict[str, Any], number: int) -> str:
    name = question.get("id")
    return str(number if name is None else name)


def _answers(qa: dict[str, Any], where: str) -> tuple[Answer, ...] | None:
    if qa.get("is_impossible"):
        return ()
    if qa.get("answers") is None:
        return None
    answers = []
    for number, answer in enumerate(_list(qa, "answers", where)):
        place = f"{where}.answers[{number}]"
        text = _text(answer, "text", place)
        start = answer.get("answer_start")
        if isinstance(start, bool) or not isinstance(start, int):
            raise UserError(
                f"{place}: answer_start is {start!r}, not a number of characters; "
                "give where the answer begins in the context, from 0"
            )
        answers.append(Answer(text, start))
    return tuple(answers)


def _list(holder: Any, key: str, where: str) -> list[Any]:
    value = _value(holder, key, where)
    if not isinstance(value, list):
        raise UserError(f"{where}: '{key}' is a {_kind(value)}, not a list; {FORM}")
    return value


def _text(holder: Any, key: str, where: str) -> str:
    value = _value(holder, key, where)
    if not isinstance(value, str):
        raise UserError(f"{where}: '{key}' is a {_kind(value)}, not a text; {FORM}")
    # half a surrogate pair ("\ud800") is no character; a "?" keeps every offset
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _value(holder: Any, key: str, where: str) -> Any:
    if not isinstance(holder, dict):
        raise UserError(f"{where}: a {_kind(holder)} where an object belongs; {FORM}")
    if key not in holder:
        raise UserError(f"{where}: no '{key}'; {FORM}")
    return holder[key]


def _kind(value: Any) -> str:
    names = {list: "list", dict: "object", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
