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
from bertkit.tasks.outputs import check_answers_apart
from bertkit.tasks.own_data import is_columns
from bertkit.tasks.records import has_records, read_records
from bertkit.tasks.rows import read_lines
from bertkit.tasks.task import Columns
from bertkit.tasks.word_readers import TAGGED, has_pairs


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
            read_examples(model, config), size=lambda one: sum(map(len, task.texts(one)))
        ):
            answers = model.answer(
                examples, length, config.batch_tokens, config.long, config.window_mean
            )
            for number, (example, prediction) in enumerate(
                zip(examples, answers.predictions, strict=True)
            ):
                record = task.record(example, prediction)
                if number in answers.windows:
                    record["windows"] = answers.windows[number]
                write(record)
            inputs += len(examples)
            windowed += len(answers.windows)
            truncated += answers.truncated
            progress.advance(len(examples))
    say_lengths(inputs, windowed, truncated, length, config.quiet)
    seconds = round(time.monotonic() - started, 3)
    return PredictResult(inputs, seconds, windowed, truncated, config.output)


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
    if has_columns:
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
    lacks_text = _lacks_text(config.input) if has_columns else _is_tasks_own(model, config.input)
    if text is None and lacks_text:
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
    """Whether a file whose ending tells of no columns has those of the model's task.

    Such are files of words with tags, and those in the layout and under the names of the data set
    that the model was tuned on.
    """
    task, path = model.task, Path(source)
    if source == STANDARD:
        return False
    if path.suffix.lower() in TAGGED:
        return task.head == "tagging"
    patterns = [pattern for names in task.files.values() for pattern in names]
    if task.from_input is not None or not any(path.match(pattern) for pattern in patterns):
        return False
    if task.head == "tagging":
        return is_columns(path) or has_pairs(path)
    return "\t" in next((line for _, line in read_lines(path)), "")


def _lacks_text(source: str) -> bool:
    """Whether the rows of a source, if there are any, have no column "text"."""
    first = next(read_records(Path(source)), None)
    return first is not None and "text" not in first
