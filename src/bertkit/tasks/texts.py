"""What the tasks on a text or a pair of texts share (paper, section 4.1).

    [CLS] text [SEP]            segments 0
    [CLS] text [SEP] pair [SEP] segments 0 ... 0 1 ... 1

The answer is asked at [CLS]. A text that is too long is cut at its end, of a pair the longer one
(the reference release's `_truncate_seq_pair` in run_classifier.py); or, to answer, it is read in
windows whose answers are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertkit.tasks.readers import TextExample
from bertkit.tasks.task import Features, FeatureSet, TaskOptions
from bertkit.tasks.windows import text_sequences
from bertkit.text.tokenizer import Tokenizer

Targets = Callable[[TextExample, Mapping[str, int]], Sequence[float]]
"""(example, label -> its number) -> what is to be learned of the example."""


def text_features(
    targets: Targets,
    examples: Sequence[TextExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """A sequence (or windows) for each text or pair, asked at [CLS], with a family's targets."""
    number_of = {label: number for number, label in enumerate(labels or ())}
    made: list[Features] = []
    truncated = 0
    whole: list[int] = []
    for number, example in enumerate(examples):
        parts = [tokenizer.token_ids(text) for text in texts(example)]
        sequences, cut = text_sequences(parts, tokenizer, options.sequence_length, options.long)
        truncated += cut
        whole.append(sum(map(len, parts)) + len(parts) + 1)
        wanted = targets(example, number_of) if labels is not None else []
        for ids, segments in sequences:
            made.append(Features(number, ids, segments, [0], [0], wanted))
    return FeatureSet(made, [len(one.ids) for one in made], truncated, whole)


def texts(example: TextExample) -> tuple[str, ...]:
    """The text, or both of a pair."""
    return (example.text,) if example.pair is None else (example.text, example.pair)


def asked_line(example: TextExample) -> dict[str, Any]:
    """The beginning of a line of the prediction file: what was asked about."""
    line: dict[str, Any] = {"id": example.id} if example.id else {}
    line["text"] = example.text
    if example.pair is not None:
        line["pair"] = example.pair
    return line


def rounded(probabilities: Mapping[str, float]) -> dict[str, float]:
    """Probabilities by name as the prediction file has them."""
    return {name: round(value, 6) for name, value in probabilities.items()}
