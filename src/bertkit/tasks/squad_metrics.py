"""Exact match and F1 of answers, exactly as by the official scripts of the data sets.

    squad_scores     SQuAD 1.1 (evaluate-v1.1.py)
    squad2_scores    SQuAD 2.0 (evaluate-v2.0.py), HasAns and NoAns, best thresholds
    cmrc_scores      CMRC 2018 (cmrc2018_evaluate.py), used for DRCD as well

Texts in, numbers from 0 to 1 out (the scripts print per cent). Where the two SQuAD scripts differ,
so do the two functions: a question without a prediction counts 0 in the first and is left out by
the second; answers that are nothing but articles and punctuation have F1 0 in the first even when
they agree, and count as no answer in the second.

CMRC's F1 is over segments: each Chinese character is one, and Latin text is cut into words; the
overlap is the longest common run of segments, not a bag. The script cuts Latin text with NLTK's
word tokenizer, which needs its data files; here a number or a run of letters is a segment and every
other sign is one, which differs in clitics ("don't") and abbreviations only.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

_CMRC_SIGNS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CMRC_SEGMENTS = re.compile(r"\d+(?:[.,]\d+)+|\w+|[^\w\s]")


def normalized(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single blanks: what both scripts compare."""
    bare = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return " ".join(bare.split())


def exact_match(gold: str, predicted: str) -> float:
    """1 when both are the same once normalized."""
    return float(normalized(gold) == normalized(predicted))


def token_f1(gold: str, predicted: str) -> float:
    """F1 of the bags of words by SQuAD 1.1's script: 0 when no word is shared."""
    gold_words, words = normalized(gold).split(), normalized(predicted).split()
    shared = (Counter(gold_words) & Counter(words)).total()
    if not shared:
        return 0.0
    precision, recall = 1.0 * shared / len(words), 1.0 * shared / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def token_f1_or_none(gold: str, predicted: str) -> float:
    """The same by SQuAD 2.0's script: when either has no word, 1 if both have none."""
    gold_words, words = normalized(gold).split(), normalized(predicted).split()
    if not gold_words or not words:
        return float(gold_words == words)
    return token_f1(gold, predicted)


Golds = Mapping[str, Sequence[str]]
"""Question's id -> the right answers; none where it is unanswerable."""


def squad_scores(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """exact and f1 by SQuAD 1.1's script: the best over the right answers, mean over questions.

    Args:
        golds: with at least one answer each.
        predictions: id -> text; a question without one counts 0.
    """
    exact = f1 = 0.0
    for name, answers in golds.items():
        if name not in predictions:
            continue
        exact += max(exact_match(gold, predictions[name]) for gold in answers)
        f1 += max(token_f1(gold, predictions[name]) for gold in answers)
    return {"exact": exact / len(golds), "f1": f1 / len(golds)}


def squad2_scores(
    golds: Golds,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float | None = None,
) -> dict[str, float]:
    """All numbers of SQuAD 2.0's script, under its names, but not in per cent.

    Args:
        predictions: id -> text, "" for no answer; questions without one are left out.
        null_odds: id -> score of no answer less score of the answer; adds `best_exact`,
            `best_f1` and their thresholds (`--na-prob-file` of the script).
        threshold: above these odds a prediction counts as no answer whatever its text
            (`--na-prob-thresh`, which is 1.0 in the script whenever it is given odds); None:
            predictions count as they stand, which is the script without odds.
    """
    answerable = {name: bool(answers) for name, answers in golds.items()}
    exact: dict[str, float] = {}
    f1: dict[str, float] = {}
    for name, answers in golds.items():
        if name in predictions:
            given = predictions[name]
            exact[name] = max(exact_match(gold, given) for gold in _wanted(answers))
            f1[name] = _best_f1(answers, given)
    scores: dict[str, float] = {}
    cut = null_odds if null_odds is not None and threshold is not None else None
    for metric, values in (("exact", exact), ("f1", f1)):
        if cut is not None:
            assert threshold is not None
            values = {
                name: float(not answerable[name]) if cut[name] > threshold else value
                for name, value in values.items()
            }
        scores[metric] = _mean(values.values())
        for prefix, wanted_kind in (("HasAns", True), ("NoAns", False)):
            part = [value for name, value in values.items() if answerable[name] == wanted_kind]
            if part:
                scores[f"{prefix}_{metric}"] = _mean(part)
    if null_odds is not None:
        for metric, values in (("exact", exact), ("f1", f1)):
            best, at = best_threshold(predictions, values, null_odds, answerable)
            scores[f"best_{metric}"] = best
            scores[f"best_{metric}_thresh"] = at
    return scores


def best_threshold(
    predictions: Mapping[str, str],
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> tuple[float, float]:
    """The best mean score that a threshold on the null odds can reach, and that threshold.

    As in the script, questions with equal odds are taken one by one, and 0.0 is returned where
    answering nothing at all is best; `tuned_threshold` mends both.
    """
    current = best = float(sum(not answerable[name] for name in answerable))
    at = 0.0
    for name in sorted(null_odds, key=lambda name: null_odds[name]):
        if name not in scores:
            continue
        if answerable[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1.0
        if current > best:
            best, at = current, null_odds[name]
    return best / len(scores), at


def tuned_threshold(
    golds: Golds, texts: Mapping[str, str], null_odds: Mapping[str, float]
) -> float:
    """The threshold to decide by from now on: that of the best F1 on these questions.

    It stands half-way between the last odds that are answered and the first that are not, so
    that the rounding of a score cannot turn a decision over.

    Args:
        texts: id -> the best answer that is not empty, however large its null odds.
    """
    gains = {
        name: _best_f1(golds[name], texts[name]) - _best_f1(golds[name], "") for name in null_odds
    }
    order = sorted(null_odds, key=lambda name: null_odds[name])
    odds = [null_odds[name] for name in order]
    current = best = 0.0  # no answer at all
    answered = 0
    for number, name in enumerate(order, start=1):
        current += gains[name]
        apart = number == len(odds) or odds[number] > odds[number - 1]
        if apart and current > best:
            best, answered = current, number
    if answered == 0:
        return odds[0] - 1.0
    if answered == len(odds):
        return odds[-1] + 1.0
    return (odds[answered - 1] + odds[answered]) / 2


def cmrc_scores(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """exact, f1 and their average by CMRC's script; a question without a prediction counts 0."""
    exact = f1 = 0.0
    for name, answers in golds.items():
        if name in predictions:
            exact += max(
                float(_without_signs(gold) == _without_signs(predictions[name])) for gold in answers
            )
            f1 += max(segment_f1(gold, predictions[name]) for gold in answers)
    exact, f1 = exact / len(golds), f1 / len(golds)
    return {"exact": exact, "f1": f1, "average": (exact + f1) / 2}


def segment_f1(gold: str, predicted: str) -> float:
    """CMRC's F1 of two texts: the longest common run of segments against the length of each."""
    wanted, found = segments(gold), segments(predicted)
    run = _longest_run(wanted, found)
    if not run:
        return 0.0
    precision, recall = 1.0 * run / len(found), 1.0 * run / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def segments(text: str) -> list[str]:
    """A text in lower case as Chinese characters and Latin words, without CMRC's signs.

    >>> segments("《Mario 3》是1990.5年")
    ['mario', '3', '是', '1990.5', '年']
    """
    found: list[str] = []
    latin: list[str] = []

    def finish() -> None:
        found.extend(_CMRC_SEGMENTS.findall("".join(latin)))
        latin.clear()

    for char in text.lower().strip():
        if char in _CMRC_SIGNS:
            continue  # as in the script, what stands on both sides grows together
        if "\u4e00" <= char <= "\u9fa5":
            finish()
            found.append(char)
        else:
            latin.append(char)
    finish()
    return found


def _without_signs(text: str) -> str:
    return "".join(char for char in text.lower().strip() if char not in _CMRC_SIGNS)


def _longest_run(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest run of segments that stands in both."""
    longest = 0
    before = [0] * (len(second) + 1)
    for one in first:
        current = [0] * (len(second) + 1)
        for place, other in enumerate(second, start=1):
            if one == other:
                current[place] = before[place - 1] + 1
                longest = max(longest, current[place])
        before = current
    return longest


def _best_f1(answers: Sequence[str], text: str) -> float:
    """SQuAD 2.0's F1 against the best of the answers."""
    return max(token_f1_or_none(gold, text) for gold in _wanted(answers))


def _wanted(answers: Sequence[str]) -> list[str]:
    """SQuAD 2.0's right answers: those that are something once normalized, or no answer."""
    return [gold for gold in answers if normalized(gold)] or [""]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
