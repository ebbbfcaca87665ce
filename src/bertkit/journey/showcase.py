"""Samples for the quickstart's report: what the models say about texts they have never seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bertkit.inference.fill import fill_masks
from bertkit.inference.load import load
from bertkit.journey.comparison import TaskData
from bertkit.journey.samples import MaskedSample, Sample
from bertkit.report.quickstart import Guess, LabelledResult, MaskedResult, TaggedResult
from bertkit.tasks.metrics import chunks
from bertkit.tasks.readers import require_file
from bertkit.tasks.registry import get_task
from bertkit.tasks.task import Columns

R = TypeVar("R", LabelledResult, TaggedResult)

ERRORS = 6
"""Mistakes to show for each task."""


def masked_results(checkpoint: Path, samples: Sequence[MaskedSample]) -> list[MaskedResult]:
    """The masked LM's guesses at the masked characters of held-out sentences."""
    filled = fill_masks(load(checkpoint), [sample.with_masks for sample in samples], top=4)
    return [
        MaskedResult(
            text=sample.text,
            gloss=sample.gloss,
            guesses=[
                Guess(
                    place=place,
                    answer=sample.text[place],
                    guesses=[(one.token, one.probability) for one in candidates],
                )
                for place, candidates in zip(sample.masked, answer.masks, strict=True)
            ],
        )
        for sample, answer in zip(samples, filled, strict=True)
    ]


def labelled_results(
    model: Path, task: TaskData, samples: Sequence[Sample], test: int
) -> tuple[list[LabelledResult], list[LabelledResult]]:
    """A classifier's labels of the samples, and its most confident mistakes on the test set."""
    glosses = {sample.text: sample.gloss for sample in samples}
    examples, predictions = _answers(model, task, test, glosses)
    results = [
        LabelledResult(
            example.text,
            glosses.get(example.text, ""),
            example.label,
            prediction.label,
            prediction.probability,
        )
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return _shown_and_wrong(results, glosses, lambda result: result.probability)


def tagged_results(
    model: Path, task: TaskData, samples: Sequence[Sample], test: int
) -> tuple[list[TaggedResult], list[TaggedResult]]:
    """A tagger's entities of the samples, and sentences of the test set with most mistakes."""
    glosses = {sample.text: sample.gloss for sample in samples}
    examples, predictions = _answers(model, task, test, glosses)
    results = [
        TaggedResult(
            "".join(example.words),
            glosses.get("".join(example.words), ""),
            _spans(example.words, example.tags),
            _spans(example.words, prediction.tags),
        )
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return _shown_and_wrong(
        results, glosses, lambda result: len(set(result.guess) ^ set(result.answer))
    )


def _shown_and_wrong(
    results: Sequence[R], glosses: Mapping[str, str], weight: Callable[[R], float]
) -> tuple[list[R], list[R]]:
    """The results that have a gloss, and of the others the heaviest mistakes."""
    shown = [result for result in results if result.text in glosses]
    wrong = [r for r in results if r.guess != r.answer and r.text not in glosses]
    return shown, sorted(wrong, key=weight, reverse=True)[:ERRORS]


def _answers(
    model: Path, task: TaskData, test: int, glosses: dict[str, str]
) -> tuple[list[Any], list[Any]]:
    """The first `test` examples and those with a gloss, and the model's predictions."""
    entry = get_task(task.family)
    examples = [
        example
        for number, example in enumerate(
            entry.read(require_file(entry, task.data, "test"), Columns())
        )
        if number < test or _text(example) in glosses
    ]
    loaded = load(model, "auto")
    return examples, loaded.answer(examples, task.sequence_length).predictions


def _text(example: Any) -> str:
    return "".join(example.words) if hasattr(example, "words") else example.text


def _spans(words: Sequence[str], tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """(first character, character behind the last, type) of each entity."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return [(starts[c.first], starts[c.last + 1], c.label) for c in chunks(tags)]
