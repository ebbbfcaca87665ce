"""`bertkit evaluate`: a tuned model and labelled examples in, its scores out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.errors import UserError
from bertkit.files import writing
from bertkit.formats.hub import checkpoint_path
from bertkit.formats.huggingface import load_checkpoint
from bertkit.model.encoder import set_compute_dtype
from bertkit.report.finetuning import write_evaluation_report
from bertkit.tasks.answers import Evaluation, check_head, evaluate_model
from bertkit.tasks.config import EvaluateConfig, FinetuneConfig
from bertkit.tasks.data import columns_of
from bertkit.tasks.fit import check_fit
from bertkit.tasks.options import answer_options, chosen_task, tuned_with
from bertkit.tasks.outputs import check_answers_apart
from bertkit.tasks.readers import require_file
from bertkit.tasks.rows import MissingColumnError
from bertkit.tasks.tables import metrics_line, scores_table, write_jsonl
from bertkit.tasks.task import Columns, Task
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.allocator import keep_memory
from bertkit.training.device import choose_device
from bertkit.training.precision import compute_dtype


@dataclass
class EvaluateResult:
    """Scores on one file.

    Attributes:
        seconds: of answering and scoring; loading the model and writing files do not count.
        metrics: from 0 to 1.
        table: precision, recall, F1 and count of each label or entity type.
        windowed: examples that were read in several windows.
        truncated: examples that lost tokens to the sequence length.
        unseen_words: words that became no token and are tagged "O".
        output, report: where the predictions and the page are, or None.
        submission: the folder of the files to be submitted, or None.
    """

    task: str
    file: str
    examples: int
    seconds: float
    metrics: dict[str, float]
    table: list[dict[str, Any]]
    truncated: int
    unseen_words: int
    output: str | None
    report: str | None = None
    windowed: int = 0
    submission: str | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.task} on {self.file}, {self.examples:,} examples in {self.seconds:.1f} s",
            metrics_line(self.metrics) or "the examples have no labels, so there are no scores",
        ]
        if self.table:
            lines += ["", scores_table(self.table)]
        if self.windowed:
            lines.append(f"{self.windowed:,} texts were read in windows")
        if self.truncated:
            lines.append(f"{self.truncated:,} texts were cut to the sequence length")
        if self.unseen_words:
            lines.append(f"{self.unseen_words:,} words have no token and are tagged O")
        if self.output:
            lines.append(f"predictions: {self.output}")
        if self.report:
            lines.append(f"report: {self.report}")
        if self.submission:
            lines.append(f"to submit: {self.submission}")
        return "\n".join(lines)


def evaluate(config: EvaluateConfig) -> EvaluateResult:
    """Scores `config.checkpoint`.

    Raises:
        UserError: the checkpoint is not tuned for the task, the data cannot be read, or they have
            labels that the checkpoint does not know.
    """
    keep_memory()
    directory = checkpoint_path(config.checkpoint)
    checkpoint = load_checkpoint(directory)
    model = checkpoint.model
    tuned = tuned_with(directory)
    task = chosen_task(config.checkpoint, model, config.task, tuned)
    check_head(checkpoint.missing, directory)
    if config.submission and task.submission is None:
        raise UserError(f"{task.name} has no form for submissions; leave --submission out")
    if config.submission and Path(config.submission).is_file():
        raise UserError(f"{config.submission} is a file; name a folder with --submission")
    path, columns = _source(config, task, tuned)
    written: dict[str, str] = {}
    for option, output in _outputs(config, task):
        check_answers_apart(output, directory, str(path), option)
        before = written.setdefault(os.path.realpath(output), option) if output else option
        if before != option:
            raise UserError(f"{before} and {option} are both {output}; give each its own file")
    try:
        examples = task.read(path, columns)
    except MissingColumnError as error:
        if error.option != "--label":
            raise
        raise UserError(f"{error}, or give --split test if there is none") from None
    tokenizer = Tokenizer.load(directory)
    check_fit(tokenizer, model, directory, config.quiet)
    device = choose_device(config.device)
    model.to(device)
    set_compute_dtype(model, compute_dtype(config.precision, device))
    options = answer_options(tuned, model)
    options = replace(options, long=config.long, window_mean=config.window_mean)
    if config.sequence_length is not None:
        options = replace(options, sequence_length=config.sequence_length)
    started = time.monotonic()
    evaluation = evaluate_model(
        model, task, examples, tokenizer, options, config.batch_tokens, config.quiet
    )
    seconds = round(time.monotonic() - started, 3)
    _write(config, task, directory, path, examples, evaluation)
    answers = evaluation.answers
    return EvaluateResult(
        task=task.name,
        file=str(path),
        examples=len(examples),
        seconds=seconds,
        metrics=evaluation.scores.metrics,
        table=evaluation.scores.table,
        truncated=answers.truncated,
        unseen_words=answers.unseen_words,
        output=config.output,
        report=config.report,
        windowed=len(answers.windows),
        submission=config.submission,
    )


def _source(
    config: EvaluateConfig, task: Task, tuned: FinetuneConfig | None
) -> tuple[Path, Columns]:
    """The file to score, and its columns: those that were named, else those of the fine-tuning.

    Test files, and whatever is to be submitted, need no labels.
    """
    path = Path(config.data)
    if not path.is_file():
        path = require_file(task, path, config.split)
    before = columns_of(tuned) if tuned else Columns()
    columns = replace(
        before,
        text=config.text or before.text,
        pair=config.pair or before.pair,
        label=config.label or before.label,
        unlabeled=bool(config.submission) or config.split.startswith("test"),
    )
    return path, columns


def _outputs(config: EvaluateConfig, task: Task) -> Iterator[tuple[str, str | None]]:
    """The files that will be written, each behind the option that names it."""
    yield "--output", config.output
    yield "--report", config.report
    if config.submission and task.submission:
        for name in task.submission([], [], config.split):
            yield "--submission", str(Path(config.submission, name))


def _write(
    config: EvaluateConfig,
    task: Task,
    directory: Path,
    path: Path,
    examples: Sequence[Any],
    evaluation: Evaluation,
) -> None:
    """Writes what the configuration asks for: the submission, the predictions, the page."""
    predictions = evaluation.answers.predictions
    if config.submission:
        assert task.submission is not None
        Path(config.submission).mkdir(parents=True, exist_ok=True)
        for name, content in task.submission(examples, predictions, config.split).items():
            with writing(Path(config.submission, name)) as partial:
                partial.write_text(content, encoding="utf-8", newline="\n")

    if config.output:
        with writing(config.output) as partial:
            write_jsonl(partial, evaluation.answers.records(task, examples))
    if config.report:
        write_evaluation_report(
            Path(config.report),
            f"Evaluation: {directory.resolve().name}",
            f"The task {task.name} on {path.name}.",
            asdict(evaluation.scores),
            list(evaluation.answers.records(task, examples)),
        )
