"""The report on the data before training: how many of each label, how long, what is cut, what
stands twice.

A dev example that stands in the training data too makes the score on dev say less than it seems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.errors import listed
from bertkit.tasks.task import FeatureSet, Task


@dataclass
class DataSummary:
    """What there is to learn from.

    Attributes:
        counts, dev_counts: examples (or entities, or questions) of each label.
        median, longest, percentile_95: tokens of a training example before it is cut, specials
            included; of multiple choice with the longest choice, of question answering of a window.
        truncated: training examples that lose tokens to `sequence_length`.
        empty: training examples without any text; `first_empty` numbers the first three in their
            file, from 1.
        repeated: training examples that stand there before.
        shared: dev examples that stand in the training data too.
    """

    examples: int
    dev_examples: int
    counts: dict[str, int]
    dev_counts: dict[str, int]
    median: int
    percentile_95: int
    longest: int
    sequence_length: int
    truncated: int
    empty: int
    first_empty: list[int]
    repeated: int
    shared: int

    def __str__(self) -> str:
        lines = [f"data: {self.examples:,} training examples, {self.dev_examples:,} for dev"]
        if self.counts:
            parts = [
                f"{label} {self.counts.get(label, 0):,} ({self.dev_counts.get(label, 0):,})"
                for label in {**self.counts, **self.dev_counts}
            ]
            lines.append(f"labels (dev): {listed(parts)}")
        lines.append(
            f"tokens: median {self.median:,}, 95 % up to {self.percentile_95:,}, longest "
            f"{self.longest:,}"
        )
        if self.truncated:
            lines.append(
                f"{self.truncated:,} training texts ({self.truncated / self.examples:.1%}) are "
                f"longer than {self.sequence_length} tokens and lose their ends "
                "(--sequence-length)"
            )
        if self.empty:
            numbers = ", ".join(map(str, self.first_empty))
            more_of_them = ", ..." if self.empty > len(self.first_empty) else ""
            lines.append(
                f"{self.empty:,} training texts are empty (number {numbers}{more_of_them})"
            )
        if self.repeated:
            lines.append(f"{self.repeated:,} training examples repeat an earlier one")
        if self.shared:
            lines.append(
                f"{self.shared:,} dev examples stand in the training data too: "
                "the score on dev is better than on new texts"
            )
        return "\n".join(lines)


def summarise(
    task: Task,
    train: Sequence[Any],
    dev: Sequence[Any],
    made: FeatureSet,
    sequence_length: int,
    train_rows: Sequence[int],
) -> DataSummary:
    """Counts what is in the examples and the units that were made of the training examples."""
    texts = [task.texts(example) for example in train]
    distinct = set(texts)
    empty = [row + 1 for row, parts in zip(train_rows, texts, strict=True) if _is_empty(parts)]
    lengths = np.asarray(made.lengths if made.whole is None else made.whole)
    count = task.counts if task.ranges is None else task.ranges(train)
    return DataSummary(
        examples=len(train),
        dev_examples=len(dev),
        counts=count(train),
        dev_counts=count(dev),
        median=int(np.median(lengths)),
        percentile_95=int(np.percentile(lengths, 95)),
        longest=int(lengths.max()),
        sequence_length=sequence_length,
        truncated=made.truncated,
        empty=len(empty),
        first_empty=empty[:3],
        repeated=len(texts) - len(distinct),
        shared=sum(task.texts(example) in distinct for example in dev),
    )


def _is_empty(texts: Sequence[str]) -> bool:
    """Whether there is nothing to see: blanks and control characters become no tokens."""
    return not any(char.isprintable() and not char.isspace() for text in texts for char in text)
