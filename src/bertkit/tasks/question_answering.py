"""Extractive question answering, with and without unanswerable questions (paper, 4.2 and 4.3).

    [CLS] question [SEP] window of the context [SEP]     segments 0 ... 0 1 ... 1

The head scores each token as the start and as the end of the answer; the loss is the mean of both
cross-entropies. Where the answer is not in the window, or there is none, both are at [CLS]. Windows
are cut by `question_windows.py`, answers chosen by `spans.py`, scored by `squad_metrics.py`.

The threshold above which a question is left unanswered is tuned on dev, where that has unanswerable
questions, and is a part of the model (`null_threshold` in its config.json).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from bertkit.errors import UserError
from bertkit.model.batch import FlatBatch
from bertkit.model.heads import span_loss
from bertkit.tasks.question_windows import Window, Windowing, make_windows
from bertkit.tasks.readers import own_files
from bertkit.tasks.spans import AnswerPrediction, Span, decode_answers
from bertkit.tasks.squad import QuestionExample, read_squad, without_lost_answers
from bertkit.tasks.squad_metrics import (
    cmrc_scores,
    squad2_scores,
    squad_scores,
    tuned_threshold,
)
from bertkit.tasks.task import Columns, FeatureSet, Scores, Task, TaskOptions
from bertkit.text.characters import is_cjk
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums

DOC_STRIDE = 128
"""Tokens from the start of a window to the start of the next, as in the reference release."""

MICRO_BATCH_TOKENS = 4096
"""A step of 32 windows has up to 12,288 tokens, which at base size take ten gigabytes at once."""


class WindowScores(NamedTuple):
    """Start and end scores, [tokens, 2], and the threshold that the model decides by."""

    scores: np.ndarray
    threshold: float | None


def read(path: Path, columns: Columns, unanswerable: bool = True) -> list[QuestionExample]:
    """Reads questions in SQuAD's form.

    Args:
        unanswerable: whether questions without an answer belong to the task.

    Raises:
        UserError: whatever `read_squad` refuses; questions whose answers are not known, unless
            `columns.unlabeled`; unanswerable ones where they do not belong.
    """
    if columns.text or columns.pair or columns.label:
        raise UserError(
            "questions are read from context, question and answers; leave --text, --pair and "
            "--label out"
        )
    examples = read_squad(path)
    unknown = [example.id for example in examples if example.answers is None]
    if unknown and not columns.unlabeled:
        raise UserError(
            f"{path} has {len(unknown):,} questions without 'answers' (first: {unknown[0]}); "
            "write [] for an unanswerable one, or use bertkit predict"
        )
    empty = [example.id for example in examples if example.answers == ()]
    if empty and not unanswerable:
        raise UserError(
            f"{path} has {len(empty):,} unanswerable questions (first: {empty[0]}); "
            "use --task squad-2.0, or question-answering for your own data"
        )
    return examples


def windowing(options: TaskOptions) -> Windowing:
    """How contexts are cut."""
    step = options.doc_stride
    if step is None and options.doc_overlap is None:
        step = DOC_STRIDE
    return Windowing(options.sequence_length, step, options.doc_overlap, options.question_tokens)


def features(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """The windows of all questions; in training without those whose answers are lost."""
    notes = []
    train = labels is not None
    kept: Sequence[QuestionExample] = examples
    if train:
        kept, lost = without_lost_answers(examples)
        if lost.count:
            notes.append(
                f"{lost.count:,} questions are not trained on, for their answers are not in their "
                f"contexts at answer_start: {lost}"
            )
    cut = windowing(options)
    made = make_windows(kept, tokenizer, cut, train)
    if made.lost:
        notes.append(f"{made.lost:,} questions are not trained on, for their answers hold no token")
    if made.cut_questions:
        notes.append(
            f"{made.cut_questions:,} questions are longer than {cut.question_tokens} tokens and "
            "lose their ends (--question-tokens)"
        )
    notes.append(
        f"{len(kept):,} questions make {len(made.windows):,} windows of at most "
        f"{cut.sequence_length} tokens, {cut.distance()}; {made.split:,} take more than one"
    )
    return FeatureSet(made.windows, [window.tokens for window in made.windows], notes=notes)


def own_features(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None,
    options: TaskOptions,
) -> FeatureSet:
    """The same for one's own data; of Chinese ones it is said that their score is over words."""
    made = features(examples, tokenizer, labels, options)
    text = "".join(example.question for example in examples[:100])
    if labels is not None and 2 * sum(map(is_cjk, text)) > len(text):
        made.notes.append(
            "the questions are Chinese, and F1 is over words between blanks; --task cmrc-2018 "
            "scores characters, where every question has an answer"
        )
    return made


def collate(windows: Sequence[Window]) -> Batch:
    """One micro-batch; `targets` holds "spans" [sequences, 2], index into the tokens."""
    inputs = FlatBatch.from_arrays(
        np.concatenate([window.ids for window in windows]),
        np.concatenate([window.segments for window in windows]),
        np.array([window.tokens for window in windows]),
    )
    starts = inputs.bounds[:-1].tolist()
    spans = [
        (window.target[0] + start, window.target[1] + start)
        for window, start in zip(windows, starts, strict=True)
        if window.target is not None
    ]
    return Batch(inputs, {"spans": torch.tensor(spans, dtype=torch.int64).reshape(-1, 2)})


class SpanObjective:
    """Cross-entropy of the right start and of the right end, two terms a window."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"span": batch.targets["spans"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        spans = batch.targets["spans"]
        sums = span_loss(model(batch.inputs), spans, batch.inputs.bounds)
        return LossSums({"span": sums.loss}, {"accuracy": (sums.correct, spans.numel())})


def outputs(model: nn.Module, batch: Batch, windows: Sequence[Window]) -> list[WindowScores]:
    """The scores of each window."""
    rows = model(batch.inputs).detach().float().cpu().numpy()
    ends = np.cumsum([window.tokens for window in windows])
    threshold: float | None = model.null_threshold  # type: ignore[assignment]
    return [WindowScores(part, threshold) for part in np.split(rows, ends[:-1])]


def decode(
    examples: Sequence[QuestionExample],
    windows: Sequence[Window],
    found: Sequence[WindowScores],
    labels: Sequence[str],
    options: TaskOptions,
) -> list[AnswerPrediction]:
    """The best answers of each question."""
    return decode_answers(
        examples,
        windows,
        [one.scores for one in found],
        options.n_best,
        options.answer_tokens,
        found[0].threshold if found else None,
    )


def calibrate(
    model: nn.Module, examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction]
) -> list[AnswerPrediction]:
    """Sets the model's threshold to the best on these examples, and decides by it.

    Where none of them is unanswerable, the model always answers.
    """
    threshold = None
    if any(not example.answers for example in examples):
        threshold = tuned_threshold(
            _golds(examples),
            {e.id: p.spans[0].text if p.spans else "" for e, p in _pairs(examples, predictions)},
            {e.id: p.null_odds for e, p in _pairs(examples, predictions)},
        )
    model.null_threshold = threshold  # type: ignore[assignment]
    return [prediction.decided_by(threshold) for prediction in predictions]


def squad2_metric(
    examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction]
) -> Scores:
    """SQuAD 2.0's numbers, of the answers as they are given; best_* from the null odds."""
    pairs = _pairs(examples, predictions)
    numbers = squad2_scores(
        _golds(examples),
        {example.id: prediction.answer for example, prediction in pairs},
        {example.id: prediction.null_odds for example, prediction in pairs},
    )
    table = []
    for label, answered in (("HasAns", True), ("NoAns", False)):
        count = sum(bool(example.answers) == answered for example in examples)
        if count:
            exact, f1 = numbers[f"{label}_exact"], numbers[f"{label}_f1"]
            table.append({"label": label, "exact": exact, "f1": f1, "count": count})
    return Scores({name: numbers[name] for name in _first(numbers, "f1", "exact")}, table)


def answered_metric(
    score: Callable[[dict[str, list[str]], dict[str, str]], dict[str, float]],
    examples: Sequence[QuestionExample],
    predictions: Sequence[AnswerPrediction],
) -> Scores:
    """The numbers of `score` where every question has an answer."""
    given = {example.id: p.answer for example, p in _pairs(examples, predictions)}
    numbers = score(_golds(examples), given)
    return Scores({name: numbers[name] for name in _first(numbers, "f1", "exact")}, [])


def metric(examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction]) -> Scores:
    """SQuAD 2.0's numbers where a question is unanswerable, SQuAD 1.1's otherwise."""
    if any(example.answers == () for example in examples):
        return squad2_metric(examples, predictions)
    return answered_metric(squad_scores, examples, predictions)


def record(example: QuestionExample, prediction: AnswerPrediction) -> dict[str, Any]:
    """A line of the prediction file: the answer, its place in the context, and the right ones."""
    chosen = prediction.chosen
    line: dict[str, Any] = {
        "id": example.id,
        "question": example.question,
        "answer": chosen.text,
        "start": chosen.start,
        "end": chosen.end,
        "score": round(prediction.score, 6),
    }
    if prediction.threshold is not None:
        line["null_odds"] = prediction.null_odds
    if example.answers is not None:
        line["gold"] = list(dict.fromkeys(answer.text for answer in example.answers))
    return line


def submission(
    examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction], split: str
) -> dict[str, str]:
    """predictions.json, nbest_predictions.json and, with unanswerable questions, null_odds.json.

    The files of run_squad.py, which the official scripts read; the same for every split.
    """
    pairs = _pairs(examples, predictions)
    files: dict[str, Any] = {
        "predictions.json": {example.id: p.answer for example, p in pairs},
        "nbest_predictions.json": {
            example.id: [
                {
                    "text": span.text,
                    "probability": probability,
                    "start_logit": span.start_logit,
                    "end_logit": span.end_logit,
                }
                for span, probability in p.candidates
            ]
            for example, p in pairs
        },
    }
    if any(p.threshold is not None for p in predictions):
        files["null_odds.json"] = {example.id: p.null_odds for example, p in pairs}
    return {
        name: json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        for name, content in files.items()
    }


def is_labelled(example: QuestionExample) -> bool:
    """Whether its answers are known."""
    return example.answers is not None


def from_input(one: Any, tokenizer: Tokenizer) -> QuestionExample:
    """An input of `predict` in Python as an example.

    Args:
        one: {"question": ..., "context": ...}, perhaps with an "id", or (question, context).

    Raises:
        UserError: it is something else.
    """
    parts: tuple[Any, ...] = ()
    if isinstance(one, QuestionExample):
        return one
    if isinstance(one, Mapping):
        parts = (one.get("question"), one.get("context"), str(one.get("id", "")))
    elif isinstance(one, tuple) and len(one) in (2, 3):
        parts = (*one, "")[:3]
    if not parts or not all(isinstance(part, str) for part in parts):
        keys = f" with the keys {', '.join(map(str, one))}" if isinstance(one, Mapping) else ""
        raise UserError(
            'a question-answering model takes {"question": a text, "context": a text}, or a pair '
            f"(question, context), not a {type(one).__name__}{keys}"
        )
    question, context, name = parts
    return QuestionExample(name, question, context)


def texts(example: QuestionExample) -> tuple[str, ...]:
    """The question and its context."""
    return (example.question, example.context)


def counts(examples: Sequence[QuestionExample]) -> dict[str, int]:
    """Questions with and without an answer."""
    answerable = sum(bool(example.answers) for example in examples)
    return {"answerable": answerable, "unanswerable": len(examples) - answerable}


def blind(
    examples: Sequence[QuestionExample], labels: Sequence[str]
) -> list[list[AnswerPrediction]]:
    """No answer to any question: scores the share of unanswerable ones."""
    return [[AnswerPrediction([], Span("", 0, 0, 0.0, 0.0), None, 1) for _ in examples]]


def _golds(examples: Sequence[QuestionExample]) -> dict[str, list[str]]:
    return {example.id: [answer.text for answer in example.answers or ()] for example in examples}


def _pairs(
    examples: Sequence[QuestionExample], predictions: Sequence[AnswerPrediction]
) -> list[tuple[QuestionExample, AnswerPrediction]]:
    return list(zip(examples, predictions, strict=True))


def _first(names: Iterable[str], *first: str) -> list[str]:
    return [*first, *(name for name in names if name not in first)]


def _squad_files(train: str, dev: str, test: str) -> dict[str, tuple[str, ...]]:
    return {
        "train": (train, "train.json"),
        "dev": (dev, "dev.json"),
        "test": (test, "test.json"),
    }


QUESTION_ANSWERING = Task(
    name="question-answering",
    summary="answers that stand in a context, or none; your own .json in SQuAD's form",
    files=own_files(),
    read=read,
    features=own_features,
    collate=collate,
    head="question-answering",
    objective=SpanObjective(),
    outputs=outputs,
    decode=decode,
    metric=metric,
    record=record,
    texts=texts,
    counts=counts,
    context=lambda example: example.context,
    main="f1",
    blind=blind,
    least_labels=0,
    trivial="unanswerable",
    is_labelled=is_labelled,
    from_input=from_input,
    submission=submission,
    calibrate=calibrate,
    sequence_length=384,
    micro_batch_tokens=MICRO_BATCH_TOKENS,
)

QUESTION_SET = replace(QUESTION_ANSWERING, features=features)
"""What the known data sets share."""

read_answerable = partial(read, unanswerable=False)
squad_metric = partial(answered_metric, squad_scores)
cmrc_metric = partial(answered_metric, cmrc_scores)

SQUAD_FILES = _squad_files("train-v1.1.json", "dev-v1.1.json", "test-v1.1.json")
SQUAD2_FILES = _squad_files("train-v2.0.json", "dev-v2.0.json", "test-v2.0.json")
CMRC_FILES = {
    "train": ("cmrc2018_train.json", "train.json"),
    "dev": ("cmrc2018_dev.json", "dev.json"),
    "test": ("cmrc2018_test.json", "cmrc2018_trial.json", "test.json"),
}
DRCD_FILES = _squad_files("DRCD_training.json", "DRCD_dev.json", "DRCD_test.json")
