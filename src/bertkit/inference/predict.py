"""`bertkit predict`: texts in, one line of JSON with labels or entities for each out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bertkit.inference.batching import in_windows
from bertkit.inference.config import PredictConfig
from bertkit.inference.inputs import json_output, read_inputs
from bertkit.inference.load import load, say_lengths
from bertkit.progress import Progress
from bertkit.training.allocator import keep_memory


@dataclass
class PredictResult:
    """What was predicted.

    Attributes:
        inputs: texts answered, in the input's order.
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
    keep_memory()
    model = load(config.checkpoint, config.precision)
    task = model.task
    started = time.monotonic()
    inputs = windowed = truncated = 0
    length = config.sequence_length or model.sequence_length
    texts = read_inputs(config.input, config.text, config.pair)
    with (
        Progress("predict", None, "texts", config.quiet) as progress,
        json_output(config.output) as write,
    ):
        for window in in_windows(texts):
            examples = [model.example(one, config.words) for one in window]
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
            inputs += len(window)
            windowed += len(answers.windows)
            truncated += answers.truncated
            progress.advance(len(window))
    say_lengths(inputs, windowed, truncated, length, config.quiet)
    seconds = round(time.monotonic() - started, 3)
    return PredictResult(inputs, seconds, windowed, truncated, config.output)
