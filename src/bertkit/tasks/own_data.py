"""A user's own data: which family of tasks it is for, and which columns mean what.

    text and label                         classification
    numbers of many values as labels       regression
    lists of labels, or --label-delimiter  multi-label classification
    columns or lists of choices            multiple choice
    words with tags, CoNLL columns         tagging
    context, question, answers             question answering

What is found is said, and saved in the run's configuration; --task, --text, --pair, --label and
--choices say it instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.errors import UserError, listed
from bertkit.progress import say
from bertkit.tasks.choice_readers import LABELS as CHOICE_LABELS
from bertkit.tasks.choice_readers import LISTS, PREFIXES, is_numbered
from bertkit.tasks.config import FinetuneConfig
from bertkit.tasks.readers import as_list, find_file, label_list
from bertkit.tasks.records import RECORD_SUFFIXES, hub_split, is_hub, read_records
from bertkit.tasks.registry import TASKS, get_task
from bertkit.tasks.rows import Record, no_column, plain_text
from bertkit.tasks.word_readers import TAG_LISTS, TAGGED, WORD_LISTS, is_columns

TEXTS = ("text", "sentence", "content", "review", "body", "title", "question")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question", "passage"),
    ("question", "sentence"),
)
CONTEXTS = ("context", "passage", "article", "paragraph", "text")
"""Of multiple choice: columns of what the column "question" asks about."""
LABELS = ("label", "labels", "class", "category", "topic", "target", "score", "rating", "tags")
"""Columns looked for, in this order, where the user names none."""

NAMES = ("id", "idx", "index")
"""Columns that name the examples."""
MANY_VALUES = 20
"""Labels that are whole numbers of more values than this are taken for scores."""
QUESTION_ANSWERING = "question-answering"
TABLES = frozenset({"classification", "regression", "multi-label", "multiple-choice"})
"""The tasks whose examples are rows with columns of texts."""


@dataclass(frozen=True)
class Found:
    """What a data set is for, and why it looks so."""

    task: str
    why: str
    text: str | None = None
    pair: str | None = None
    label: str | None = None


def resolve(config: FinetuneConfig) -> FinetuneConfig:
    """The configuration with its data as a file where --data names one, and with a task.

    Raises:
        UserError: the data do not show what they are for.
    """
    data = config.data
    if data is not None and not is_hub(data) and Path(data).is_file():
        config = replace(config, data=None, train=data)
    if config.task is not None:
        return _with_columns(config)
    source = _training_source(config)
    found = infer(source, config)
    say(f"{source}: {found.why}, so the task is {found.task} (--task says otherwise)", config.quiet)
    return replace(config, task=found.task, text=found.text, pair=found.pair, label=found.label)


def _with_columns(config: FinetuneConfig) -> FinetuneConfig:
    """The configuration of a task for one's own table with the columns that nobody named."""
    task = get_task(str(config.task))
    if task.name not in TABLES:
        return config
    source = (
        Path(config.train) if config.train else find_file(task, Path(str(config.data)), "train")
    )
    first = None if source is None else next(read_records(source), None)
    if source is None or first is None:
        return config  # reading it says what is wrong
    if task.name == "multiple-choice":
        text, pair = _asked_columns(source, first, config)
        label = config.label
    else:
        text, pair = _text_columns(source, first, config)
        label = _label_column(first, config)
    if (text, pair, label) != (config.text, config.pair, config.label):
        of = f"'{label}' of " if label else ""
        say(f"{source}: the task is {task.name}, {of}{_named(text, pair)}", config.quiet)
    return replace(config, text=text, pair=pair, label=label)


def _training_source(config: FinetuneConfig) -> Path:
    """What is looked at: the file of --train, or the training file in the folder of --data."""
    if config.train is not None:
        return Path(config.train)
    folder = Path(str(config.data))
    if is_hub(folder):
        found = hub_split(str(folder), "train")
        if found is None:
            raise UserError(f"{folder} has no train split; name one as hub:NAME:CONFIG:SPLIT")
        return found
    if not folder.is_dir():
        raise UserError(f"there is no {folder}; give a folder or a file of examples")
    suffixes = (*RECORD_SUFFIXES, *TAGGED, ".txt")
    there = [folder / f"train{suffix}" for suffix in suffixes]
    found_files = [path for path in there if path.is_file()]
    if len(found_files) != 1:
        several = ", ".join(path.name for path in found_files)
        raise UserError(
            f"{folder} has several training files ({several}); name the task with --task"
            if several
            else f"{folder} has no training file of one's own data (train.csv, train.jsonl, ...); "
            "name the task with --task"
        )
    return found_files[0]


def infer(path: Path, config: FinetuneConfig) -> Found:
    """What a source of training examples is for.

    Raises:
        UserError: the columns cannot be told apart, or the labels are no labels.
    """
    suffix = path.suffix.lower()
    given = (config.text, config.pair, config.label)
    if suffix in TAGGED or (suffix == ".txt" and is_columns(path)):
        return Found("tagging", "words with their tags", *given)
    if suffix == ".json" and _is_squad(path):
        return _answering("SQuAD's JSON", given)
    rows = list(read_records(path))
    if not rows:
        raise UserError(f"{path} has no examples; give a file with a header and rows")
    first = rows[0]
    if {"context", "question", "answers"} <= first.keys():
        return _answering("a context, a question and answers", given)
    words = config.text or next((name for name in WORD_LISTS if name in first), "")
    tags = config.label or next((name for name in TAG_LISTS if name in first), "")
    if as_list(first.get(words)) is not None and as_list(first.get(tags)) is not None:
        return Found("tagging", "lists of words and of tags", words, None, tags)
    several = [name for name in first if any(is_numbered(name, prefix) for prefix in PREFIXES)]
    lists = [
        name
        for name in LISTS
        if isinstance(first.get(name), dict) or as_list(first.get(name)) is not None
    ]
    if config.choices or len(several) > 1 or lists:
        names = list(config.choices or lists[:1] or several)
        text, pair = _asked_columns(path, first, config)
        why = f"choices in {', '.join(names)} for {_named(text, pair)}"
        used = {text, pair, config.label, *names, *CHOICE_LABELS}
        return Found("multiple-choice", why + _unread(first, used), text, pair, config.label)
    text, pair = _text_columns(path, first, config)
    label = _label_column(first, config)
    if label is None or label not in first:
        raise no_column(first, first.where, label or "label", "--label")
    task, why = _kind_of_labels(path, label, [row.get(label) for row in rows], config)
    why = f"{why} in '{label}' for {_named(text, pair)}{_unread(first, {text, pair, label})}"
    return Found(task, why, text, pair, label)


def _answering(why: str, given: tuple[str | None, str | None, str | None]) -> Found:
    if QUESTION_ANSWERING not in TASKS:
        raise UserError(f"the data are {why}; name the task with --task")
    return Found(QUESTION_ANSWERING, why, *given)


def _named(text: str, pair: str | None) -> str:
    return f"'{text}' and '{pair}'" if pair else f"'{text}'"


def _unread(first: Record, used: Iterable[str | None]) -> str:
    """What is said of the columns that nothing is made of."""
    left = [f"'{name}'" for name in first if name and name not in {*used, *NAMES}]
    return f" (not read: {listed(left)})" if left else ""


def _asked_columns(path: Path, first: Record, config: FinetuneConfig) -> tuple[str, str | None]:
    """The columns of the context and of the question that choices are for; or one of the two."""
    context = next((name for name in CONTEXTS if name in first), None)
    if config.text is None and context is not None and "question" in first:
        return context, config.pair or "question"
    if config.text is None and context is not None:
        return context, config.pair
    return _text_columns(path, first, config)


def _label_column(first: Record, config: FinetuneConfig) -> str | None:
    return config.label or next((name for name in LABELS if name in first), None)


def _text_columns(path: Path, first: Record, config: FinetuneConfig) -> tuple[str, str | None]:
    """The columns of the text and of the second text."""
    if config.text is not None:
        if config.text not in first:
            raise no_column(first, first.where, config.text, "--text")
        return config.text, config.pair
    for one, two in PAIRS:
        if one in first and two in first:
            return one, config.pair or two
    for name in TEXTS:
        if name in first:
            return name, config.pair
    label = _label_column(first, config)
    others = [name for name in first if name not in (label, config.pair)]
    if len(others) == 1 and len(first) > 1:
        return others[0], config.pair
    raise no_column(first, str(path), "text", "--text")


def _kind_of_labels(
    path: Path, label: str, values: Sequence[Any], config: FinetuneConfig
) -> tuple[str, str]:
    """(task, why) from the values of the label."""
    present = [value for value in values if value not in (None, "")]
    if config.label_delimiter is not None:
        return "multi-label", f"labels divided by '{config.label_delimiter}'"
    if any(isinstance(value, list) for value in present):
        return "multi-label", "lists of labels"
    texts = [plain_text(value).strip() for value in present]
    if texts and all(
        text.startswith("[") and text.endswith("]") and label_list(text, None) is not None
        for text in texts
    ):
        return "multi-label", "lists of labels"
    distinct = set(texts)
    if distinct and all(map(_is_number, distinct)):
        whole = all(float(text).is_integer() for text in distinct if text.lower() not in _ODD)
        if len(distinct) > MANY_VALUES or (len(distinct) > 2 and not whole):
            return "regression", f"numbers of {len(distinct):,} values"
    elif any("," in text for text in distinct) and all(
        _is_number(text.replace(",", ".")) for text in distinct
    ):
        raise UserError(
            f"{path}: column '{label}' has numbers with a comma ('{min(distinct)}'); write them "
            "with a point"
        )
    elif len(distinct) > max(50, len(texts) // 2):
        raise UserError(
            f"{path}: column '{label}' has {len(distinct):,} values in {len(texts):,} rows, too "
            "many for labels; name the right column with --label"
        )
    return "classification", f"{len(distinct):,} labels"


_ODD = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_squad(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return '"paragraphs"' in file.read(1 << 16)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the name") from None
