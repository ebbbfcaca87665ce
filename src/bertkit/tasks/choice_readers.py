"""Readers of multiple choice: SWAG, HellaSwag, CommonsenseQA and C3 as their makers ship them,
and one's own tables.

    SWAG           train.csv: sent1, sent2, ending0 ... ending3, label
    HellaSwag      hellaswag_train.jsonl: ctx_a, ctx_b, endings, label
    CommonsenseQA  train_rand_split.jsonl: question.stem, question.choices, answerKey (a letter);
                   on the hub the choices lie beside the question
    C3             m-train.json and d-train.json: [[lines], [{question, choice, answer}], id], where
                   the answer is the text of a choice
    own            a column that holds a list, or a column for each choice; the label is a number
                   from 0, a letter from A, or the text of a choice

Where choices are numbers or letters themselves, a label could mean several of these. A JSON number
counts the choices; of written labels the whole file decides: texts where all are texts of their
choices, then numbers where all are, then letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from bertkit.errors import UserError
from bertkit.tasks.readers import Mistakes, as_list, some, value_of
from bertkit.tasks.records import is_hub, load_json, read_records
from bertkit.tasks.rows import Record, plain_text, record
from bertkit.tasks.task import Columns

LISTS = ("choices", "endings", "options", "choice")
"""Columns that hold a list of choices, where the user names none."""
PREFIXES = ("choice", "ending", "option", "answer")
"""Columns such as ending0, ending1, ..., where the user names none."""
LABELS = ("label", "answer", "answerKey", "gold")


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A question with its choices.

    Attributes:
        context: what stands before [SEP].
        question: what stands before each choice; may be empty.
        answer: number of the right choice from 0, or None when it is not known.
        id: the question's name in its file, or "".
    """

    context: str
    question: str
    choices: list[str]
    answer: int | None = None
    id: str = ""


Parts = tuple[str, str, list[str], Any, str]
"""Context, question, choices, the label as it is written (None where there is none), name."""


def read_swag(path: Path, columns: Columns) -> list[ChoiceExample]:
    """SWAG's CSV; the file without labels is the test set."""

    def parts(row: Record) -> Parts:
        endings = [_text(row, f"ending{number}") for number in range(4)]
        return _text(row, "sent1"), _text(row, "sent2"), endings, row.get("label"), ""

    return _examples(path, columns, ((row, parts(row)) for row in read_records(path)))


def read_hellaswag(path: Path, columns: Columns) -> list[ChoiceExample]:
    """HellaSwag's JSONL."""

    def parts(row: Record) -> Parts:
        name = plain_text(row.get("ind", ""))
        return (
            _text(row, "ctx_a"),
            _text(row, "ctx_b"),
            _list(row, "endings"),
            row.get("label"),
            name,
        )

    return _examples(path, columns, ((row, parts(row)) for row in read_records(path)))


def read_commonsenseqa(path: Path, columns: Columns) -> list[ChoiceExample]:
    """CommonsenseQA's JSONL, in the makers' layout or the hub's."""

    def parts(row: Record) -> Parts:
        question = value_of(row, ("question",), "--text")
        holder: Record = row
        if isinstance(question, dict):
            holder = record(question, row.where)
            question = question.get("stem", "")
        if not isinstance(holder.get("choices"), (list, dict)) or not holder["choices"]:
            raise UserError(f"{row.where}: no choices; give CommonsenseQA's own file")
        said, keys = _list_with_keys(holder, "choices")
        key = row.get("answerKey") or None
        return plain_text(question), "", said, _keyed(key, keys), row.get("id", "")

    return _examples(path, columns, ((row, parts(row)) for row in read_records(path)))


def read_c3(path: Path, columns: Columns) -> list[ChoiceExample]:
    """C3's JSON; of m-train.json (mixed genre) and d-train.json (dialogues) both are read."""
    if is_hub(path):

        def parts_of(row: Record) -> Parts:
            lines = value_of(row, ("context",), "--text")
            context = "\n".join(lines) if isinstance(lines, list) else str(lines)
            return context, _text(row, "question"), _list(row, "choice"), row.get("answer"), ""

        return _examples(path, columns, ((row, parts_of(row)) for row in read_records(path)))
    paths = [path]
    twin = path.with_name(path.name.replace("m-", "d-", 1))
    if path.name.startswith(("m-", "c3-m-")) and twin.is_file():
        paths.append(twin)
    rows_of: list[tuple[Record, Parts]] = []
    for one in paths:
        items = load_json(one)
        for number, item in enumerate(items if isinstance(items, list) else [], start=1):
            where = record({}, f"{one}, item {number}")
            try:
                lines, questions, name = item
                for index, asked in enumerate(questions):
                    parts: Parts = (
                        "\n".join(lines),
                        plain_text(asked["question"]),
                        _list(record(asked, where.where), "choice"),
                        asked.get("answer"),
                        f"{name}-{index}" if len(questions) > 1 else str(name),
                    )
                    rows_of.append((where, parts))
            except (TypeError, ValueError, KeyError):
                raise UserError(
                    f"{where.where} is not [lines, questions, name]; give C3's own file"
                ) from None
    return _examples(path, columns, rows_of)


def read_choices(path: Path, columns: Columns) -> list[ChoiceExample]:
    """One's own table of choices.

    Raises:
        UserError: no columns of choices, a label that names no choice.
    """

    def parts(row: Record) -> Parts:
        context = plain_text(value_of(row, (columns.text or "text",), "--text"))
        question = plain_text(value_of(row, (columns.pair,), "--pair")) if columns.pair else ""
        label = row.get(columns.label) if columns.label else _first(row, LABELS)
        if label is None and not columns.unlabeled:
            value_of(row, (columns.label or LABELS[0],), "--label")
        choices, keys = choices_of(row, columns.choices)
        name = row.get("id")
        return context, question, choices, _keyed(label, keys), "" if name is None else name

    rows = ((row, parts(row)) for row in read_records(path))
    return _examples(path, columns, rows, may_be_empty=False)


def choices_of(row: Record, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The choices of a row of one's own table, and the keys that stand beside them, if any."""
    if not names:
        found = [name for name in LISTS if name in row]
        numbered = next(
            (
                several
                for prefix in PREFIXES
                if len(several := [n for n in row if is_numbered(n, prefix)]) > 1
            ),
            [],
        )
        names = tuple(numbered or found[:1])
    if len(names) == 1:
        return _list_with_keys(row, names[0])
    if not names:
        raise UserError(
            f"{row.where}: no column of choices (there are: {', '.join(row)}); "
            "name it, or one for each choice, with --choices"
        )
    values = [plain_text(value_of(row, (name,), "--choices")) for name in names]
    while values and not values[-1]:  # a question with fewer choices leaves the last cells empty
        values.pop()
    return values, []


def is_numbered(name: str, prefix: str) -> bool:
    """Whether a column is one of several: choice0, ending_1, optionA."""
    rest = name.lower().removeprefix(prefix)
    number = rest.lstrip("_ ")
    numbered = number.isdigit() or (len(number) == 1 and number.isalpha() and rest != "s")
    return name.lower().startswith(prefix) and numbered


def _list(row: Record, name: str) -> list[str]:
    """The choices in a column."""
    return _list_with_keys(row, name)[0]


def _list_with_keys(row: Record, name: str) -> tuple[list[str], list[str]]:
    """The choices in a column, and the keys that stand beside them, if any.

    A list of texts, a list of {"label": "A", "text": ...}, or {"label": [...], "text": [...]}.
    """
    value = value_of(row, (name,), "--choices")
    keys: list[Any] = []
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = {key: [one.get(key) for one in value] for key in ("label", "text")}
    if isinstance(value, dict):
        keys, value = as_list(value.get("label")) or [], value.get("text")
    choices = as_list(value)
    if choices is None:
        raise UserError(
            f"{row.where}: column '{name}' holds no list; write a JSON list, or name a column "
            "for each choice with --choices"
        )
    texts, names = (
        ["" if one is None else plain_text(one) for one in values] for values in (choices, keys)
    )
    return texts, names if len(names) == len(texts) and all(names) else []


def _keyed(label: Any, keys: Sequence[str]) -> Any:
    """The number of the choice whose key a label is; where there are no keys, the label."""
    key = "" if label is None else plain_text(label)
    return keys.index(key) if key in keys else label


def _examples(
    path: Path,
    columns: Columns,
    rows: Iterable[tuple[Record, Parts]],
    may_be_empty: bool = True,
) -> list[ChoiceExample]:
    """The examples of a file.

    Args:
        may_be_empty: whether a choice may be an empty text, as the makers of a data set know.
    """
    mistakes = Mistakes()
    examples = []
    rows = list(rows)
    answers = answers_of([(label, choices) for _, (_, _, choices, label, _) in rows])
    for (row, (context, question, choices, label, name)), answer in zip(rows, answers, strict=True):
        blank = [number for number, one in enumerate(choices, start=1) if not one.strip()]
        if not choices:
            mistakes.add(row.where, "no choices")
        elif blank and not may_be_empty:
            mistakes.add(row.where, f"choice {blank[0]} of {len(choices)} is empty")
        elif label in (None, "") and not columns.unlabeled:
            mistakes.add(row.where, "the label is empty")
        elif label not in (None, "") and answer is None and not columns.unlabeled:
            mistakes.add(
                row.where, f"the label {label!r} is neither 0 to {len(choices) - 1} nor a choice"
            )
        examples.append(ChoiceExample(context, question, choices, answer, str(name)))
    mistakes.refuse("give each question choices and the right one's number, letter or text")
    return some(examples, path)


def answers_of(labelled: Sequence[tuple[Any, list[str]]]) -> list[int | None]:
    """The numbers of the choices that the (label, choices) of a file mean.

    None for a label that is None, "" or none of its choices.

    >>> answers_of([("b", ["a", "b"]), ("A", ["c", "d"]), ("2", ["e", "f"])])
    [1, 0, None]
    """
    written = [
        (plain_text(label).strip(), choices)
        for label, choices in labelled
        if label not in (None, "") and not _is_count(label)
    ]
    ways = (_by_text, _by_number, _by_letter)
    fitting = [w for w in ways if all(w(text, choices) is not None for text, choices in written)]

    def answer(label: Any, choices: list[str]) -> int | None:
        if label in (None, ""):
            return None
        tried = (_by_number,) if _is_count(label) else fitting[:1] or ways
        text = plain_text(label).strip()
        return next((n for way in tried if (n := way(text, choices)) is not None), None)

    return [answer(label, choices) for label, choices in labelled]


def _is_count(label: Any) -> bool:
    return isinstance(label, int) and not isinstance(label, bool)


def _by_text(label: str, choices: list[str]) -> int | None:
    stripped = [choice.strip() for choice in choices]
    return stripped.index(label) if label in stripped else None


def _by_number(label: str, choices: list[str]) -> int | None:
    return int(label) if label in map(str, range(len(choices))) else None


def _by_letter(label: str, choices: list[str]) -> int | None:
    letter = ascii_uppercase.find(label.upper()) if len(label) == 1 else -1
    return letter if 0 <= letter < len(choices) else None


def _text(row: Record, name: str) -> str:
    return plain_text(value_of(row, (name,), "--text"))


def _first(row: Record, names: Iterable[str]) -> Any:
    return next((row[name] for name in names if name in row), None)
