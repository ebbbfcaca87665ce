"""Word segmentation of Chinese: each character is tagged B, M, E or S, and the tags make words.

    希 望 的 新 世 纪      B begins a word of several characters, M goes on, E ends it;
    B  E  S  S  B  E      S is a word of one character

Scored by the F1 of words, as in the SIGHAN bakeoffs. A tag that breaks the scheme begins a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import UserError
from bertkit.tasks.metrics import word_scores
from bertkit.tasks.readers import WordsExample
from bertkit.tasks.tagging import TAGGING, best_tags
from bertkit.tasks.task import Columns, Features, Scores, TaskOptions
from bertkit.tasks.word_readers import read_segmented, words_of_bmes
from bertkit.text.tokenizer import Tokenizer

LABELS = ["B", "M", "E", "S"]


@dataclass(frozen=True)
class SegmentedPrediction:
    """The words of a text, in order; together they are the text without its blanks, which end a
    word wherever they stand."""

    words: list[str]


def read(path: Path, columns: Columns) -> list[WordsExample]:
    """Segmented sentences as tagged characters."""
    examples = []
    for words in read_segmented(path, columns):
        text = "".join(words)
        tags = [tag for word in words for tag in tags_of(len(word))]
        examples.append(_characters(text, tags))
    return examples


def tags_of(length: int) -> str:
    """The tags of a word of so many characters."""
    return "S" if length == 1 else "B" + "M" * (length - 2) + "E"


def from_input(text: Any, tokenizer: Tokenizer) -> WordsExample:
    """A text to be segmented; the model does not see its blanks, which divide words anyway."""
    if not isinstance(text, str):
        raise UserError(f"a segmentation model takes texts, not a {type(text).__name__}")
    return _characters(text, [])


def _characters(text: str, tags: list[str]) -> WordsExample:
    places = [number for number, character in enumerate(text) if not character.isspace()]
    offsets = [(number, number + 1) for number in places]
    return WordsExample([text[number] for number in places], tags, text, offsets)


def decode(
    examples: Sequence[WordsExample],
    asked: Sequence[Features],
    outputs: Sequence[np.ndarray],
    labels: Sequence[str],
    options: TaskOptions,
) -> list[SegmentedPrediction]:
    """The words that the most probable tags make."""
    tags, _ = best_tags(examples, asked, outputs, labels, missing="S")
    return [
        SegmentedPrediction(_words(example, one))
        for example, one in zip(examples, tags, strict=True)
    ]


def _words(example: WordsExample, tags: Sequence[str]) -> list[str]:
    """The words that tags make of a text's characters; none goes over a blank."""
    words: list[str] = []
    part: list[tuple[str, str]] = []
    end = 0
    for character, tag, (start, after) in zip(
        example.words, tags, example.offsets or (), strict=True
    ):
        if start != end:
            words += words_of_bmes(part)
            part = []
        part.append((character, tag))
        end = after
    return words + words_of_bmes(part)


def metric(examples: Sequence[WordsExample], predictions: Sequence[SegmentedPrediction]) -> Scores:
    """Precision, recall and F1 of words."""
    gold = [words_of_bmes(zip(e.words, e.tags, strict=True)) for e in examples]
    return word_scores(gold, [prediction.words for prediction in predictions])


def unknown(examples: Sequence[WordsExample], labels: Sequence[str]) -> list[str]:
    """Tags of the examples that the model does not have."""
    return sorted({tag for example in examples for tag in example.tags}.difference(labels))


def record(example: WordsExample, prediction: SegmentedPrediction) -> dict[str, Any]:
    """A line of the prediction file: the text, its words, and the right ones where known."""
    line: dict[str, Any] = {"text": example.text, "words": prediction.words}
    if example.tags:
        line["gold"] = words_of_bmes(zip(example.words, example.tags, strict=True))
    return line


def counts(examples: Sequence[WordsExample]) -> dict[str, int]:
    """Characters of each tag."""
    found = Counter(tag for example in examples for tag in example.tags)
    return {label: found[label] for label in LABELS}


def blind(
    examples: Sequence[WordsExample], labels: Sequence[str]
) -> list[list[SegmentedPrediction]]:
    """Every character a word."""
    return [[SegmentedPrediction(example.words) for example in examples]]


SEGMENTATION = replace(
    TAGGING,
    name="segmentation",
    summary="Chinese word segmentation: words divided by blanks, word/tag pairs, CoNLL-U or BMES",
    files={
        "train": ("train.txt", "*_training.utf8", "*-ud-train.conllu", "199801.txt"),
        "dev": ("dev.txt", "*-ud-dev.conllu"),
        "test": ("test.txt", "*_test_gold.utf8", "*-ud-test.conllu"),
    },
    read=read,
    labels=lambda examples: list(LABELS),
    decode=decode,
    unknown=unknown,
    metric=metric,
    record=record,
    counts=counts,
    blind=blind,
    from_input=from_input,
)
