"""Examples in, predictions and scores out, for a model in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

from torch import nn

from bertkit.errors import UserError, listed
from bertkit.model.config import ModelConfig
from bertkit.progress import Progress, say
from bertkit.tasks.batches import by_budget
from bertkit.tasks.parallel import compute_each
from bertkit.tasks.task import FeatureSet, Scores, Task, TaskOptions
from bertkit.tasks.windows import merged, windows_of
from bertkit.text.tokenizer import Tokenizer

BATCH_TOKENS = 2048
"""Tokens computed at once where nothing else is said: more is no faster on a CPU."""

TASK_HEADS = ("classifier.", "qa_outputs.", "tagger.")
"""How the names of a task head's weights begin in the file."""


@dataclass
class Answers:
    """Predictions in the order of the examples.

    Attributes:
        truncated: examples that lost tokens to the sequence length.
        unseen_words: words that became no token, so are tagged "O" unasked.
        windows: example -> in how many windows it was read, where more than one.
    """

    predictions: list[Any]
    truncated: int
    unseen_words: int
    windows: dict[int, int] = field(default_factory=dict)

    def records(self, task: Task, examples: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """Yields the line of the prediction file of each example."""
        for number, pair in enumerate(zip(examples, self.predictions, strict=True)):
            line = task.record(*pair)
            if number in self.windows:
                line["windows"] = self.windows[number]
            yield line


@dataclass
class Evaluation:
    """Scores of a model on labelled examples, and the predictions they come from."""

    scores: Scores
    answers: Answers


def answer(
    model: nn.Module,
    task: Task,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    options: TaskOptions,
    batch_tokens: int = BATCH_TOKENS,
    quiet: bool = True,
) -> Answers:
    """Predicts for examples, labelled or not.

    Raises:
        UserError: the sequence length is beyond the model's positions or below 3.
    """
    check_sequence_length(options.sequence_length, model)
    made = task.features(examples, tokenizer, None, options)
    for note in made.notes:
        say(note, quiet)
    rows = outputs(model, task, made, batch_tokens, quiet)
    labels: list[str] = model.labels  # type: ignore[assignment]
    units: Sequence[Any] = made.features
    windows = windows_of(made)
    if windows and task.merge is not None:
        units, rows = merged(units, rows, task.merge, options.window_mean)
    predictions = task.decode(examples, units, rows, labels, options)
    return Answers(predictions, made.truncated, made.unseen_words, windows)


def evaluate_model(
    model: nn.Module,
    task: Task,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    options: TaskOptions,
    batch_tokens: int = BATCH_TOKENS,
    quiet: bool = True,
    calibrate: bool = False,
) -> Evaluation:
    """Scores a model in memory on labelled examples; the others are answered all the same.

    Args:
        calibrate: choose on these examples what the task chooses on dev, and set it in the model.

    Raises:
        UserError: labels that the model does not have, or what `answer` raises.
    """
    labelled = list(map(task.is_labelled, examples))
    if 0 < sum(labelled) < len(examples):
        say(f"{sum(labelled):,} of {len(examples):,} examples have a label: scores are of these")
    known: list[str] = model.labels  # type: ignore[assignment]
    unknown = task.unknown(examples, known)
    if unknown:
        raise UserError(
            f"the examples have labels that the model does not know: {listed(unknown)} (it knows "
            f"{listed(known)}); tune a model on data with these labels, or rename them"
        )
    answers = answer(model, task, examples, tokenizer, options, batch_tokens, quiet)
    if calibrate and any(labelled) and task.calibrate is not None:
        answers.predictions = task.calibrate(model, examples, answers.predictions)
    scores = Scores({}, [])
    if any(labelled):
        predictions = list(compress(answers.predictions, labelled))
        scores = task.metric(list(compress(examples, labelled)), predictions)
    return Evaluation(scores, answers)


def outputs(
    model: nn.Module, task: Task, made: FeatureSet, batch_tokens: int, quiet: bool
) -> list[Any]:
    """What the model says of each unit, in the order of `made.features`."""
    device = next(model.parameters()).device
    found: list[Any] = [None] * len(made.features)

    def compute(group: list[int]) -> list[Any]:
        units = [made.features[number] for number in group]
        return task.outputs(model, task.collate(units).to(device), units)

    training = model.training
    if training:  # not in any case: it visits every module, as long as a layer takes for a text
        model.eval()
    groups = by_budget(made.lengths, batch_tokens)
    try:
        with Progress("answers", len(found), "sequences", quiet) as progress:
            for group, parts in compute_each(compute, groups, device):
                for number, part in zip(group, parts, strict=True):
                    found[number] = part
                progress.advance(len(group))
    finally:
        if training:
            model.train()
    return found


def check_head(missing: Sequence[str], path: Path) -> None:
    """Raises UserError where a checkpoint lacks the weights of its own task head."""
    if any(name.startswith(TASK_HEADS) for name in missing):
        raise UserError(
            f"the weights in {path} lack the task head that its configuration names; "
            "copy them again, or tune the model with bertkit finetune"
        )


def max_positions(model: nn.Module) -> int:
    """Tokens of the longest sequence that a model has positions for."""
    config = model.config
    assert isinstance(config, ModelConfig)
    return config.max_positions


def check_sequence_length(sequence_length: int, model: nn.Module) -> None:
    """Raises UserError for a sequence length that the model cannot take."""
    positions = max_positions(model)
    if sequence_length > positions:
        raise UserError(
            f"sequence length {sequence_length} is beyond the model's {positions} positions; "
            f"use --sequence-length {positions} or less"
        )
    if sequence_length < 3:
        raise UserError(
            f"sequence length {sequence_length} leaves no room for a token between [CLS] and "
            "[SEP]; use 3 or more"
        )
