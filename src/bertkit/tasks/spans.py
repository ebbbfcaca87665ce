"""Start and end scores of windows in, answers out (paper, sections 4.2 and 4.3).

The score of a span is S.T_i + E.T_j, its end not before its start. Candidates of a question come
from all its windows: their tokens are the context's, the start is where it has most context
(`question_windows.max_context`), and they have at most 30 tokens. An answer is a slice of the
untouched context. The score of no answer is that of the span at [CLS], the lowest of all windows;
the null odds are that score less the best answer's, and a question is left unanswered when they
are above the threshold. This is run_squad.py's rule, with two changes:
- The release looks at the 20 best starts and the 20 best ends only, of all tokens, and may be left
  with no span at all. Here every span is looked at, so the best one is found, as in the paper.
- Answers are slices, so nothing has to be aligned with the text after the fact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bertkit.tasks.question_windows import Window, by_example, max_context
from bertkit.tasks.squad import QuestionExample

NO_TOKENS = 1e4
"""Null odds of a question whose context has no token, so nothing to answer with."""


@dataclass(frozen=True, slots=True)
class Span:
    """A candidate: a slice of the context from character `start` to `end`, or "" for no answer."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """What the model says about a question.

    Attributes:
        spans: the best answers, best first; none where the context has no token.
        null: no answer.
        threshold: no answer is given where the null odds are above it; None: always one is.
        n_best: length of `candidates`.
    """

    spans: list[Span]
    null: Span
    threshold: float | None
    n_best: int

    @property
    def null_odds(self) -> float:
        """Score of no answer less score of the best answer."""
        return self.null.score - self.spans[0].score if self.spans else NO_TOKENS

    @property
    def chosen(self) -> Span:
        """The answer, or `null`."""
        if not self.spans or (self.threshold is not None and self.null_odds > self.threshold):
            return self.null
        return self.spans[0]

    @property
    def answer(self) -> str:
        """A slice of the untouched context, or "" for no answer."""
        return self.chosen.text

    @property
    def candidates(self) -> list[tuple[Span, float]]:
        """The best spans and their softmax, best first; with no answer where that is possible.

        As in the release, no answer is added at the end where it is not among the best.
        """
        kept = self.spans[: self.n_best]
        if self.threshold is not None or not kept:
            order = sorted([*self.spans, self.null], key=lambda span: -span.score)[: self.n_best]
            kept = order if self.null in order else [*order, self.null]
        top = max(span.score for span in kept)
        exponentials = [math.exp(span.score - top) for span in kept]
        total = sum(exponentials)
        return [(span, value / total) for span, value in zip(kept, exponentials, strict=True)]

    @property
    def score(self) -> float:
        """Probability of the answer among the candidates."""
        chosen = self.chosen
        return next((value for span, value in self.candidates if span is chosen), 0.0)

    def decided_by(self, threshold: float | None) -> AnswerPrediction:
        """The same under another threshold."""
        return replace(self, threshold=threshold)


def decode_answers(
    examples: Sequence[QuestionExample],
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    n_best: int = 20,
    answer_tokens: int = 30,
    threshold: float | None = None,
) -> list[AnswerPrediction]:
    """One prediction for each example.

    Args:
        windows: of all examples, in their order.
        scores: [tokens, 2] of each window.
        n_best: candidates kept of each question, with different texts.
        answer_tokens: of the longest answer.
        threshold: see `AnswerPrediction`.
    """
    nothing = AnswerPrediction([], Span("", 0, 0, 0.0, 0.0), threshold, n_best)
    predictions = [nothing] * len(examples)
    for number, own in by_example(windows):
        cut = [windows[n] for n in own]
        values = [np.asarray(scores[n], dtype=np.float64) for n in own]
        spans = _best_texts(examples[number].context, cut, values, n_best, answer_tokens)
        at = min((value[0] for value in values), key=lambda pair: float(pair[0] + pair[1]))
        null = Span("", 0, 0, float(at[0]), float(at[1]))
        predictions[number] = AnswerPrediction(spans, null, threshold, n_best)
    return predictions


def _best_texts(
    context: str,
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    n_best: int,
    longest: int,
) -> list[Span]:
    """The best spans of all windows, of the same text the best one only."""
    own = max_context(windows)
    wanted = n_best
    while True:
        found, more = _best_spans(windows, scores, own, wanted, longest)
        texts: dict[str, Span] = {}
        for number, first, last in found:
            window, score = windows[number], scores[number]
            start = int(window.context.starts[window.first + first])
            end = int(window.context.ends[window.first + last])
            text = context[start:end]
            if text not in texts:
                start_logit = float(score[window.offset + first, 0])
                end_logit = float(score[window.offset + last, 1])
                texts[text] = Span(text, start, end, start_logit, end_logit)
        if len(texts) >= n_best or not more:
            return list(texts.values())[:n_best]
        wanted *= 4  # the same text stands in several places


def _best_spans(
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    own: Sequence[np.ndarray],
    count: int,
    longest: int,
) -> tuple[list[tuple[int, int, int]], bool]:
    """The `count` best spans as (window, first, last), context tokens of that window.

    Also says whether there are more than these.
    """
    found: list[tuple[float, int, int, int]] = []
    spans = 0
    for number, (window, score, starts_here) in enumerate(zip(windows, scores, own, strict=True)):
        inside = score[window.offset : window.offset + window.length]
        width = min(longest, window.length)
        starts = np.flatnonzero(starts_here)
        ends = np.concatenate([inside[:, 1], np.full(width - 1, -math.inf)])
        lanes = np.lib.stride_tricks.sliding_window_view(ends, width)[starts]
        flat = (inside[starts, 0][:, None] + lanes).ravel()  # [starts, width]: the span's length
        spans += int(np.isfinite(flat).sum())
        top = np.argpartition(-flat, count)[:count] if count < len(flat) else np.arange(len(flat))
        for place in top[np.isfinite(flat[top])]:
            row, length = divmod(int(place), width)
            first = int(starts[row])
            found.append((float(flat[place]), number, first, first + length))
    # equal scores: the first window, the first start, the shorter span
    found.sort(key=lambda one: (-one[0], one[1:]))
    return [one[1:] for one in found[:count]], spans > count
