"""Start and end scores of windows in, answers out (paper, sections 4.2 and 4.3).

The score of a span is S.T_i + E.T_j, its end not before its start. Candidates of a question come
from all its windows: their tokens are the context's, the start is where it has most context
(`windows.max_context`), and they have at most 30 tokens. An answer is a slice of the untouched
context. The score of no answer is that of the span at [CLS], the lowest of all windows; the null
odds are that score less the best answer's, and a question is left unanswered when they are above
the threshold. This is run_squad.py's rule, with two changes:
- The release looks at the 20 best starts and the 20 best ends only, of all tokens, and may be left
  with no span at all. Here every span is looked at, so the best one is found, as in the paper.
- Answers are slices, so nothing has to be aligned with the text after the fact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertkit.tasks.squad import QuestionExample
from bertkit.tasks.windows import Window, by_example, max_context


@dataclass(frozen=True)
class Decoding:
    """How answers are chosen.

    Attributes:
        n_best: candidates kept of each question.
        answer_tokens: of the longest answer.
        null_threshold: no answer where the null odds are above it; None: always an answer.
    """

    n_best: int = 20
    answer_tokens: int = 30
    null_threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer that was considered; text "" at (0, 0) is no answer.

    Attributes:
        start, end: characters of the untouched context.
        start_logit, end_logit: their sum is its score.
        probability: softmax of the scores over the candidates kept.
    """

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The answer to a question.

    Attributes:
        answer: a slice of the untouched context, or "" for no answer.
        start, end: characters of the context; both 0 for no answer.
        score: probability among the candidates.
        null_odds: score of no answer less score of the best answer; None for a model that always
            answers.
        best: the best text that is not empty, whatever the odds; "" where the context has no token.
        candidates: best first.
    """

    answer: str
    start: int
    end: int
    score: float
    null_odds: float | None
    best: str
    candidates: list[Candidate]


NO_TOKENS = 1e4
"""Null odds of a question whose context has no token, as it has nothing to answer with."""


def decode_answers(
    examples: Sequence[QuestionExample],
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    decoding: Decoding,
) -> list[AnswerPrediction]:
    """One prediction for each example.

    Args:
        windows: of all examples, in their order.
        scores: [tokens, 2] of each window.
    """
    predictions = [_without_tokens(decoding)] * len(examples)
    for number, own in by_example(windows):
        predictions[number] = _decode(
            examples[number],
            [windows[n] for n in own],
            [np.asarray(scores[n], dtype=np.float64) for n in own],
            decoding,
        )
    return predictions


def decide(prediction: AnswerPrediction, threshold: float | None) -> AnswerPrediction:
    """The same prediction under another threshold."""
    odds = prediction.null_odds
    if odds is None:
        return prediction
    empty = threshold is not None and odds > threshold
    chosen = next((c for c in prediction.candidates if bool(c.text) != empty), None)
    if chosen is None:  # the context has no token
        return prediction
    return AnswerPrediction(
        chosen.text,
        chosen.start,
        chosen.end,
        chosen.probability,
        odds,
        prediction.best,
        prediction.candidates,
    )


def _decode(
    example: QuestionExample,
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    decoding: Decoding,
) -> AnswerPrediction:
    own = max_context(windows)
    wanted = decoding.n_best
    while True:
        found, more = _best_spans(windows, scores, own, wanted, decoding.answer_tokens)
        texts: dict[str, tuple[int, int, float, float]] = {}
        for window, first, last, start_logit, end_logit in found:
            context = windows[window].context
            start, end = int(context.starts[first]), int(context.ends[last])
            texts.setdefault(example.context[start:end], (start, end, start_logit, end_logit))
            if len(texts) == decoding.n_best:
                break
        if len(texts) == decoding.n_best or not more:
            break
        wanted *= 4  # the same text stood in several places
    kept = [(text, *rest) for text, rest in texts.items()]
    odds = None
    if decoding.null_threshold is not None:
        null = min((float(s[0, 0]) + float(s[0, 1]), n) for n, s in enumerate(scores))
        at = scores[null[1]][0]
        odds = null[0] - (kept[0][3] + kept[0][4])
        kept = kept[: max(1, decoding.n_best - 1)]
        kept.append(("", 0, 0, float(at[0]), float(at[1])))
        kept.sort(key=lambda one: -(one[3] + one[4]))  # stable: an answer before an equal null
    candidates = _with_probabilities(kept)
    best = next(c for c in candidates if c.text)
    prediction = AnswerPrediction(
        best.text, best.start, best.end, best.probability, odds, best.text, candidates
    )
    return decide(prediction, decoding.null_threshold)


def _best_spans(
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    own: Sequence[np.ndarray],
    count: int,
    longest: int,
) -> tuple[list[tuple[int, int, int, float, float]], bool]:
    """The `count` best spans of all windows as (window, first, last, start and end logit).

    `first` and `last` are tokens of the context. Also says whether there are more than these.
    """
    found: list[tuple[float, int, int, int]] = []
    spans = 0
    for number, (window, score, starts_here) in enumerate(zip(windows, scores, own, strict=True)):
        inside = score[window.offset : window.offset + window.length]
        width = min(longest, window.length)
        starts = np.flatnonzero(starts_here)
        ends = np.concatenate([inside[:, 1], np.full(width, -math.inf)])
        lanes = np.lib.stride_tricks.sliding_window_view(ends, width)[starts]
        sums = inside[starts, 0][:, None] + lanes  # [starts, width]: end at start + column
        flat = sums.ravel()
        spans += int(np.isfinite(flat).sum())
        top = np.argpartition(-flat, count)[:count] if count < len(flat) else np.arange(len(flat))
        for place in top[np.isfinite(flat[top])]:
            row, column = divmod(int(place), width)
            first = int(starts[row])
            found.append((float(flat[place]), number, first, first + column))
    # equal scores: the first window, the first start, the shorter span
    found.sort(key=lambda one: (-one[0], one[1:]))
    best = []
    for _, number, first, last in found[:count]:
        window, score = windows[number], scores[number]
        start_logit = float(score[window.offset + first, 0])
        end_logit = float(score[window.offset + last, 1])
        best.append((number, window.first + first, window.first + last, start_logit, end_logit))
    return best, spans > count


def _with_probabilities(
    kept: Sequence[tuple[str, int, int, float, float]],
) -> list[Candidate]:
    sums = [one[3] + one[4] for one in kept]
    top = max(sums)
    exponentials = [math.exp(one - top) for one in sums]
    total = sum(exponentials)
    return [
        Candidate(*one, probability=value / total)
        for one, value in zip(kept, exponentials, strict=True)
    ]


def _without_tokens(decoding: Decoding) -> AnswerPrediction:
    odds = None if decoding.null_threshold is None else NO_TOKENS
    return AnswerPrediction("", 0, 0, 1.0, odds, "", [Candidate("", 0, 0, 0.0, 0.0, 1.0)])
