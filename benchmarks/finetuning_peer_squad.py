"""Question answering of the judge of `finetuning.py`, as courses on transformers teach it.

Questions and contexts are cut by the tokenizer with `return_overflowing_tokens`, answers are placed
by its offsets, and chosen from the 20 best starts and ends of all windows of a question. Scores are
by the rules of SQuAD 1.1's script. Nothing of bertkit is used.

The tokenizer's `stride` is what two windows share. For windows that begin a fixed number of tokens
apart it depends on the question's length, so questions of one length are cut at a time.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from finetuning_tasks import ANSWER_TOKENS, N_BEST, QUESTION_TOKENS, WINDOW_STEP

SPECIALS = 3
"""[CLS], and [SEP] after the question and after the context."""

Offsets = list[tuple[int, int] | None]
"""[tokens]: characters of the context that a token stands for, None where it is no part of it."""


@dataclass(frozen=True)
class Question:
    """A question, its context, and its right answers with their first characters."""

    id: str
    text: str
    context: str
    answers: list[tuple[str, int]]


@dataclass(frozen=True)
class Window:
    """A question with a part of its context.

    Attributes:
        question: its number.
        ids, segments: [tokens].
        span: positions of the answer's first and last token; (0, 0), which is [CLS], where not
            all of it is in the window.
    """

    question: int
    ids: list[int]
    segments: list[int]
    offsets: Offsets
    span: tuple[int, int]


def read_questions(path: Path, articles: slice) -> list[Question]:
    """The questions of some articles of a file in SQuAD's form."""
    return [
        Question(
            qa["id"],
            qa["question"],
            paragraph["context"],
            [(answer["text"], answer["answer_start"]) for answer in qa["answers"]],
        )
        for article in json.loads(path.read_text(encoding="utf-8"))["data"][articles]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def cut(tokenizer: Any, questions: Sequence[Question], length: int) -> list[Window]:
    """The windows of all questions, in their order."""
    of_length: dict[int, list[int]] = defaultdict(list)
    alone = tokenizer([question.text for question in questions], add_special_tokens=False)
    for number, ids in enumerate(alone["input_ids"]):
        of_length[len(ids)].append(number)
    if max(of_length) > QUESTION_TOKENS:
        raise ValueError(f"a question of {max(of_length)} tokens; this loop cuts none")
    windows = []
    for tokens, numbers in of_length.items():
        encoded = tokenizer(
            [questions[number].text for number in numbers],
            [questions[number].context for number in numbers],
            truncation="only_second",
            max_length=length,
            stride=length - SPECIALS - tokens - WINDOW_STEP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        for row, place in enumerate(encoded["overflow_to_sample_mapping"]):
            sequences = encoded.sequence_ids(row)
            offsets: Offsets = [
                tuple(pair) if sequence == 1 else None
                for sequence, pair in zip(sequences, encoded["offset_mapping"][row], strict=True)
            ]
            number = numbers[place]
            windows.append(
                Window(
                    number,
                    encoded["input_ids"][row],
                    encoded["token_type_ids"][row],
                    offsets,
                    place_answer(questions[number], offsets),
                )
            )
    return sorted(windows, key=lambda window: window.question)


def place_answer(question: Question, offsets: Offsets) -> tuple[int, int]:
    """First and last token of the first right answer, or (0, 0)."""
    text, start = question.answers[0]
    end = start + len(text)
    inside = [(position, *pair) for position, pair in enumerate(offsets) if pair is not None]
    if not inside or inside[0][1] > start or inside[-1][2] < end:
        return (0, 0)
    first = max(position for position, begin, _ in inside if begin <= start)
    last = min(position for position, _, stop in inside if stop >= end)
    return (first, last)


def choose_answers(
    questions: Sequence[Question], windows: Sequence[Window], logits: Sequence[np.ndarray]
) -> dict[str, str]:
    """The answer to each question, by its id.

    Args:
        logits: [tokens or more, 2] of each window: scores of starts and ends.
    """
    best = [(float("-inf"), "")] * len(questions)
    for window, scores in zip(windows, logits, strict=True):
        starts, ends = scores[: len(window.ids)].T
        for start in np.argsort(-starts)[:N_BEST].tolist():
            for end in np.argsort(-ends)[:N_BEST].tolist():
                first, last = window.offsets[start], window.offsets[end]
                if first is None or last is None or not 0 <= end - start < ANSWER_TOKENS:
                    continue
                score = float(starts[start] + ends[end])
                if score > best[window.question][0]:
                    context = questions[window.question].context
                    best[window.question] = (score, context[first[0] : last[1]])
    return {question.id: text for question, (_, text) in zip(questions, best, strict=True)}


def squad_scores(questions: Sequence[Question], given: dict[str, str]) -> dict[str, float]:
    """Exact match and F1 of words, of each question the best over its right answers."""
    exact, f1 = [], []
    for question in questions:
        answer = words(given[question.id])
        right = [words(text) for text, _ in question.answers]
        exact.append(float(answer in right))
        f1.append(max(overlap(answer, one) for one in right))
    return {"exact": sum(exact) / len(exact), "f1": sum(f1) / len(f1)}


def words(text: str) -> list[str]:
    """What the script compares: words in lower case, without punctuation and articles."""
    bare = "".join(char for char in text.lower() if char not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def overlap(answer: list[str], right: list[str]) -> float:
    """F1 of two bags of words."""
    shared = sum((Counter(answer) & Counter(right)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(answer), shared / len(right)
    return 2 * precision * recall / (precision + recall)
