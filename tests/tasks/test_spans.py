"""The answer is the best span there is, a slice of the untouched context, or none."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from bertkit.tasks.question_windows import Windowing, make_windows, max_context
from bertkit.tasks.spans import NO_TOKENS, decode_answers
from bertkit.tasks.squad import QuestionExample

CONTEXT = (
    "the man  went to the store and\tbought a cafe\u0301 in the 书店 , big house and the city ."
)


def windows_of(tokenizer, contexts, windowing=None):
    examples = [QuestionExample(str(n), "who", c) for n, c in enumerate(contexts)]
    made = make_windows(examples, tokenizer, windowing or Windowing(16, 5, None, 4), False)
    return examples, made.windows


def random_scores(windows, seed, rounded=False):
    generator = np.random.default_rng(seed)
    scores = [generator.normal(size=(w.tokens, 2)).astype(np.float32) for w in windows]
    return [np.round(s) for s in scores] if rounded else scores


def plain_best(context, windows, scores, n_best, longest):
    """Every allowed span, the plain way: text -> best score, the n best."""
    own = max_context(windows)
    found: dict[str, float] = {}
    for window, score, here in zip(windows, scores, own, strict=True):
        for first in range(window.length):
            for last in range(first, min(first + longest, window.length)):
                if not here[first]:
                    continue
                text = context[
                    window.context.starts[window.first + first] : window.context.ends[
                        window.first + last
                    ]
                ]
                value = float(score[window.offset + first, 0]) + float(
                    score[window.offset + last, 1]
                )
                found[text] = max(found.get(text, -math.inf), value)
    return sorted(found.items(), key=lambda item: -item[1])[:n_best]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_spans_are_those_of_a_search_through_all(tiny_tokenizer, seed, longest):
    examples, windows = windows_of(tiny_tokenizer, [CONTEXT])
    assert len(windows) > 2
    scores = random_scores(windows, seed)
    [prediction] = decode_answers(examples, windows, scores, 5, longest)
    expected = plain_best(CONTEXT, windows, scores, 5, longest)
    assert [(s.text, pytest.approx(s.score)) for s in prediction.spans] == expected
    assert prediction.answer == expected[0][0]
    chosen = prediction.chosen
    assert CONTEXT[chosen.start : chosen.end] == prediction.answer
    probabilities = [p for _, p in prediction.candidates]
    assert sum(probabilities) == pytest.approx(1.0)
    assert prediction.score == probabilities[0] == max(probabilities)


def test_the_same_text_in_many_places_counts_once(tiny_tokenizer):
    contexts = ["the " * 200 + "man"]
    examples, windows = windows_of(tiny_tokenizer, contexts)
    scores = random_scores(windows, 0)
    [prediction] = decode_answers(examples, windows, scores, 20, 2)
    texts = [span.text for span in prediction.spans]
    assert sorted(texts) == ["man", "the", "the man", "the the"]


def test_no_answer_is_the_lowest_null_score_of_all_windows(tiny_tokenizer):
    examples, windows = windows_of(tiny_tokenizer, [CONTEXT])
    scores = random_scores(windows, 1)
    [prediction] = decode_answers(examples, windows, scores, threshold=0.0)
    assert prediction.null.score == pytest.approx(min(float(s[0].sum()) for s in scores))
    assert prediction.null_odds == prediction.null.score - prediction.spans[0].score
    assert "" in [span.text for span, _ in prediction.candidates]


def test_the_threshold_decides_and_equal_odds_are_answered(tiny_tokenizer):
    examples, windows = windows_of(tiny_tokenizer, [CONTEXT])
    [prediction] = decode_answers(examples, windows, random_scores(windows, 1))
    odds = prediction.null_odds
    assert prediction.answer  # no threshold: always an answer
    assert prediction.decided_by(odds).answer == prediction.answer
    unanswered = prediction.decided_by(odds - 1e-6)
    assert (unanswered.answer, unanswered.chosen.start, unanswered.chosen.end) == ("", 0, 0)
    assert 0 < unanswered.score < 1


def test_no_answer_joins_the_candidates_at_its_place_or_at_the_end(tiny_tokenizer):
    examples, windows = windows_of(tiny_tokenizer, [CONTEXT], Windowing(64, 8, None, 8))
    scores = random_scores(windows, 3)
    for value, place in ((100.0, 0), (-100.0, 5)):
        scores[0][0] = value
        [prediction] = decode_answers(examples, windows, scores, 5, threshold=0.0)
        texts = [span.text for span, _ in prediction.candidates]
        assert texts.index("") == place
        assert len(texts) == max(5, place + 1)
        assert prediction.answer == ("" if place == 0 else prediction.spans[0].text)


def test_a_context_without_tokens_is_left_unanswered(tiny_tokenizer):
    examples, windows = windows_of(tiny_tokenizer, ["", "the man", " \x00 "])
    for threshold in (None, 0.0):
        predictions = decode_answers(
            examples, windows, random_scores(windows, 0), threshold=threshold
        )
        assert [bool(p.answer or (threshold == 0.0 and p.spans)) for p in predictions] == [0, 1, 0]
        assert predictions[0].null_odds == NO_TOKENS
        assert predictions[0].score == 1.0
        assert [span.text for span, _ in predictions[0].candidates] == [""]


def test_ties_go_to_the_first_and_shorter_span(tiny_tokenizer):
    examples, windows = windows_of(tiny_tokenizer, ["the man went"], Windowing(64, 8, None, 8))
    [prediction] = decode_answers(examples, windows, [np.zeros((windows[0].tokens, 2))])
    assert prediction.answer == "the"


def test_batches_of_questions_change_nothing(tiny_tokenizer):
    generator = random.Random(0)
    contexts = [
        " ".join(generator.choice(CONTEXT.split()) for _ in range(generator.randrange(1, 40)))
        for _ in range(20)
    ]
    examples, windows = windows_of(tiny_tokenizer, contexts)
    scores = random_scores(windows, 0, rounded=True)
    together = decode_answers(examples, windows, scores)
    for number, example in enumerate(examples):
        own = [n for n, w in enumerate(windows) if w.example == number]
        alone = make_windows([example], tiny_tokenizer, Windowing(16, 5, None, 4), False).windows
        [one] = decode_answers([example], alone, [scores[n] for n in own])
        assert one == together[number]
