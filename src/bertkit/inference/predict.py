"""`bertkit predict`: texts in, one line of JSON with labels or entities for each out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bertkit.inference.batching import in_windows
from bertkit.inference.config import PredictConfig
from bertkit.inference.inputs import json_output, read_inputs
from bertkit.inference.load import load
from bertkit.inference.questions import read_questions
from bertkit.progress import Progress, say
from bertkit.training.allocator import keep_memory


@dataclass
class PredictResult:
    """What was predicted.

    Attributes:
        inputs: texts answered, in the input's order.
        truncated: texts that lost their ends; entities are found in windows and lose nothing.
        output: the file, or None for standard output.
    """

    inputs: int
    seconds: float
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
    inputs = truncated = 0
    read = read_questions if model.head == "question-answering" else read_inputs
    texts = read(config.input, config.text, config.pair)
    with (
        Progress("predict", None, "texts", config.quiet) as progress,
        json_output(config.output) as write,
    ):
        for window in in_windows(texts):
            examples = [model.example(one) for one in window]
            answers = model.answer(examples, config.sequence_length, config.batch_tokens)
            for example, prediction in zip(examples, answers.predictions, strict=True):
                write(task.record(example, prediction))
            inputs += len(window)
            truncated += answers.truncated
            progress.advance(len(window))
    length = config.sequence_length or model.sequence_length
    if truncated:
        say(f"{truncated:,} of {inputs:,} texts were cut to {length} tokens", config.quiet)
    return PredictResult(inputs, round(time.monotonic() - started, 3), truncated, config.output)
