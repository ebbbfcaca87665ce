"""`bertkit predict`: texts in, one line of JSON with labels or entities for each out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.inference.batching import in_windows
from bertkit.inference.config import PredictConfig
from bertkit.inference.inputs import STANDARD, json_output, read_inputs
from bertkit.inference.load import LoadedModel, load, say_lengths
from bertkit.inference.questions import read_questions
from bertkit.progress import Progress, say
from bertkit.tasks.data import columns_of
from bertkit.tasks.metrics import split_tag
from bertkit.tasks.outputs import check_answers_apart
from bertkit.tasks.readers import WordsExample
from bertkit.tasks.records import has_records, read_records
from bertkit.tasks.registry import family_of
from bertkit.tasks.rows import TableForm, read_lines
from bertkit.tasks.task import Columns
from bertkit.tasks.word_readers import TAGGED, has_pairs, is_columns


@dataclass
class PredictResult:
    """What was predicted.

    Attributes:
        inputs: texts answered, in the input's order.
        seconds: of reading, answering and writing; loading the model does not count.
        windowed: texts that were read in several windows.
        truncated: texts that lost their ends.
        output: the file, or None for standard output.
    """

    inputs: int
    seconds: float
    windowed: int
    truncated: int
    output: str | None

    def __str__(self) -> str:
        return f"{self.output}: {self.inputs:,} predictions" if self.output else ""


def predict(config: PredictConfig) -> PredictResult:
    """Answers every text of `config.input` and writes JSONL.

    Raises:
        UserError: the checkpoint has no task head, or the input cannot be read.
    """
    model = load(config.checkpoint, config.precision, config.device)
    check_answers_apart(config.output, model.path, config.input)
    task = model.task
    started = time.monotonic()
    inputs = windowed = truncated = 0
    length = model.length(config.sequence_length)
    with (
        Progress("predict", None, "texts", config.quiet) as progress,
        json_output(config.output) as write,
    ):
        for examples in in_windows(
            read_examples(model, config),
            size=lambda one: sum(map(len, task.texts(one))),
            together=_in_one_document if model.options.document_context else None,
        ):
            answers = model.answer(
                examples, length, config.batch_tokens, config.long, config.window_mean
            )
            for line in answers.records(task, examples):
                write(line)
            inputs += len(examples)
            windowed += len(answers.windows)
            truncated += answers.truncated
            progress.advance(len(examples))
    say_lengths(inputs, windowed, truncated, length, config.quiet)
    seconds = round(time.monotonic() - started, 3)
    return PredictResult(inputs, seconds, windowed, truncated, config.output)


def _in_one_document(one: WordsExample, following: WordsExample) -> bool:
    return one.document is not None and one.document == following.document


def read_examples(model: LoadedModel, config: PredictConfig) -> Iterator[Any]:
    """Yields the examples of `config.input`, in its order.

    Columns that are not named are those that the model was tuned with. Texts are read one by one;
    questions with choices, and files in the layout of a known data set, all at once.

    Raises:
        UserError: no such source, columns that are not there.
    """
    tuned = model.tuned
    columns = columns_of(tuned) if tuned else Columns()
    text, pair, has_columns = config.text, config.pair, has_records(config.input)
    if model.head == "question-answering":
        for question in read_questions(config.input, text, pair):
            yield model.example(question)
        return
    if has_columns or text is not None or pair is not None:
        text, pair = text or columns.text, pair or columns.pair
    columns = replace(
        columns,
        text=text,
        pair=pair,
        choices=tuple(config.choices) or columns.choices,
        unlabeled=True,
    )
    if model.head == "multiple-choice":
        if config.input == STANDARD:
            raise UserError(f"{model.path} answers questions with choices; give them as a file")
        yield from model.task.read(Path(config.input), columns)
        return
    if text is None and _is_tasks_own(model, config.input):
        yield from model.task.read(Path(config.input), columns)
        return
    if pair is None and (model.task.pairs or (tuned is not None and tuned.pair)):
        say(
            f"{model.path} was tuned on pairs of texts, and these are single ones: give pairs in "
            "a table or JSONL, with --text and --pair for the columns",
            config.quiet,
        )
    words = model.task.head == "tagging" and model.task.from_input is None
    for one in read_inputs(config.input, text, pair, words=words):
        yield model.example(one, config.words)


def _is_tasks_own(model: LoadedModel, source: str) -> bool:
    """Whether a source is read as the model's task reads its data, and not as texts.

    So are files of words with tags, tables and records without a column "text", and files in the
    layout and under the names of the data set that the model was tuned on.
    """
    task, path = model.task, Path(source)
    suffix = path.suffix.lower()
    if source == STANDARD:
        return False
    if suffix in TAGGED:
        return task.head == "tagging"
    if task.from_input is not None:
        return False  # its data are texts
    if has_records(source) and (suffix != ".tsv" or task.head != "tagging"):
        first = next(read_records(path, TableForm(skip_broken=True)), None)
        if first is None:  # nothing in it, or the one line of a data set's file without header
            return task is not family_of(model.head)
        return "text" not in first
    patterns = [pattern for names in task.files.values() for pattern in names]
    if suffix != ".tsv" and not any(path.match(pattern) for pattern in patterns):
        return False
    if task.head != "tagging":
        return "\t" in next((line for _, line in read_lines(path)), "")
    may_be_text = suffix in (".txt", ".tsv")
    types = {split_tag(label)[1] for label in model.labels} if may_be_text else None
    return has_pairs(path) or is_columns(path, types)
