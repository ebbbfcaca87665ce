"""Predictions with the right answers beside them in, what went wrong out: sections of a report.

A record is a line of a prediction file. Its keys tell the kind of task:

    label, gold        one label of several
    labels, gold       any number of labels
    score, gold        a number
    tags, gold         a tag for each word
    choice, gold       one of the choices
    words, gold        the words of a text without blanks
    answer, gold       an answer from a context, of several right ones; "" and none: no answer

Records without "gold" say nothing about errors and are passed over.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from bertkit.report.confusion import matrix_figure, scatter_figure
from bertkit.report.log import Record, read_records
from bertkit.report.page import (
    Html,
    Section,
    card,
    cards,
    charts,
    count,
    decimals,
    join,
    paragraph,
    percent,
    table,
    tag,
    verdict,
)

WORST = 20
"""Errors shown."""
MOST_TEXT = 600
"""Characters of a text shown; its middle falls away."""
NO_ANSWER = "no answer"
OUTSIDE = "O"
"""The tag of words outside everything stands first."""


def outcome_sections(records: Iterable[Record]) -> list[Section]:
    """The confusion matrix, or what stands for it, and the worst errors.

    Args:
        records: lines of a prediction file, in any number: only the worst are kept.
    """
    judged = (record for record in records if record.get("gold") is not None)
    first = next(judged, None)
    kind = next((name for name in _KINDS if first is not None and name in first), None)
    if first is None or kind is None:
        return []
    return _KINDS[kind](chain([first], judged))


def read_predictions(path: Path) -> list[Record]:
    """The records of a prediction file, or none where it is not there."""
    return read_records(path) if path.is_file() else []


class _Worst:
    """The worst errors of a stream, and how many there are.

    `card` makes a block of the page from an error's record.
    """

    def __init__(self, card: Callable[[Record], Html]) -> None:
        self.records = self.errors = 0
        self._card = card
        self._heap: list[tuple[float, int, Record]] = []

    def see(self, record: Record, wrong: bool, weight: float) -> None:
        """Takes a record; `weight` says how bad an error is."""
        self.records += 1
        if not wrong:
            return
        self.errors += 1
        item = (weight, -self.errors, record)  # of two that are as bad the first stays
        if len(self._heap) < WORST:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)

    def section(self, order: str, heading: str = "Worst errors") -> Section:
        share = percent(self.errors / max(1, self.records))
        said = paragraph(
            f"{count(self.errors)} of {count(self.records)} ({share}) are not as labelled. "
            + order * bool(self.errors)
        )
        return Section(heading, [said, self.cards()])

    def cards(self) -> Html:
        return cards(*(self._card(record) for _, _, record in sorted(self._heap, reverse=True)))


def _labels(records: Iterator[Record]) -> list[Section]:
    counts: Counter[tuple[str, str]] = Counter()
    names: dict[str, None] = {}
    worst = _Worst(_label_card)
    for record in records:
        right, answer = str(record["gold"]), str(record["label"])
        names |= dict.fromkeys(record.get("probabilities", {}))
        counts[right, answer] += 1
        worst.see(record, right != answer, _sure(record))
    order = (
        "Below are those where the model was surest. Some of the labels may be wrong themselves."
    )
    return [Section("Confusion", [matrix_figure(counts, list(names))]), worst.section(order)]


def _label_card(record: Record) -> Html:
    answer = verdict(f"{record['label']} {percent(_sure(record), 0)}", False)
    return card(*_texts(record), tag("p", join(answer, f" labelled {record['gold']}")))


def _sure(record: Record) -> float:
    return float(record.get("probability", 0.0))


def _label_sets(records: Iterator[Record]) -> list[Section]:
    both, missed, extra = Counter[str](), Counter[str](), Counter[str]()
    worst = _Worst(_set_card)
    for record in records:
        right, found = set(map(str, record["gold"])), set(map(str, record["labels"]))
        both.update(right & found)
        missed.update(right - found)
        extra.update(found - right)
        sure = _wrong_by(record.get("probabilities", {}), right - found, found - right)
        worst.see(record, right != found, sure)
    names = sorted(both.keys() | missed.keys() | extra.keys())
    rows = [[name, count(both[name]), count(missed[name]), count(extra[name])] for name in names]
    header = ["Label", "Rightly given", "Missed", "Wrongly given"]
    return [
        Section("Confusion", [table(header, rows, numbers=range(1, 4))] if rows else []),
        worst.section("Below are those where a wrong label was surest."),
    ]


def _wrong_by(probabilities: dict[str, float], missed: set[str], extra: set[str]) -> float:
    """How sure the model was of its worst label."""
    wrong = [1 - float(probabilities.get(name, 0.0)) for name in missed]
    wrong += [float(probabilities.get(name, 1.0)) for name in extra]
    return max(wrong, default=0.0)


def _set_card(record: Record) -> Html:
    right, found = set(map(str, record["gold"])), set(map(str, record["labels"]))
    pieces: list[str] = []
    for words, names, good in (
        ("", right & found, True),
        ("missed: ", right - found, False),
        ("wrongly: ", found - right, False),
    ):
        if names:
            pieces += [verdict(words + ", ".join(sorted(names)), good), " "]
    return card(*_texts(record), tag("p", join(*pieces)))


def _scores(records: Iterator[Record]) -> list[Section]:
    points: list[tuple[float, float]] = []
    worst = _Worst(_score_card)
    for record in records:
        right, answer = float(record["gold"]), float(record["score"])
        points.append((right, answer))
        worst.see(record, True, abs(answer - right))
    title = "Answer (upwards) and right score (to the right)"
    return [
        Section("Answers and right scores", [charts(scatter_figure(points, title))]),
        Section("Worst errors", [worst.cards()]),
    ]


def _score_card(record: Record) -> Html:
    line = f"{decimals(float(record['score']), 3)} where {float(record['gold']):g} is right"
    return card(*_texts(record), tag("p", line))


def _tags(records: Iterator[Record]) -> list[Section]:
    counts: Counter[tuple[str, str]] = Counter()
    worst = _Worst(_tag_card)
    for record in records:
        pairs = list(zip(map(str, record["gold"]), map(str, record["tags"]), strict=False))
        counts.update((_type(right), _type(answer)) for right, answer in pairs)
        wrong = sum(right != answer for right, answer in pairs)
        worst.see(record, wrong > 0, wrong)
    order = "Below are those with the most wrong words: each with its tag ← the right one."
    return [
        Section("Confusion of words", [matrix_figure(counts, [OUTSIDE])]),
        worst.section(order, "Worst sentences"),
    ]


def _type(tag_: str) -> str:
    """The type without the place in the chunk: B-PER and I-PER are PER."""
    prefix, dash, name = tag_.partition("-")
    return name if dash and prefix in ("B", "I", "E", "S", "M") else tag_


def _tag_card(record: Record) -> Html:
    words = list(map(str, record["words"]))
    between = "" if all(len(word) == 1 and word > "\u2e80" for word in words) else " "
    pieces: list[str] = []
    for word, right, answer in zip(words, record["gold"], record["tags"], strict=False):
        if right == answer:
            pieces += [word, between]
        else:
            pieces += [tag("mark", join(word, tag("sub", f"{answer} ← {right}")), "bad"), between]
    return card(tag("p", join(*pieces), "text"))


def _segmented(records: Iterator[Record]) -> list[Section]:
    worst = _Worst(_segmented_card)
    for record in records:
        missed, extra = _word_errors(record)
        worst.see(record, bool(missed or extra), len(missed) + len(extra))
    order = "Below are those with the most wrong words: the answer ← the right words."
    return [worst.section(order, "Worst sentences")]


def _word_errors(record: Record) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The words, by their characters, that were missed, and those that are not there."""
    right, answer = _spans(record["gold"]), _spans(record["words"])
    return right - answer, answer - right


def _spans(words: Iterable[Any]) -> set[tuple[int, int]]:
    ends = list(accumulate(len(str(word)) for word in words))
    return set(pairwise([0, *ends]))


def _segmented_card(record: Record) -> Html:
    _, extra = _word_errors(record)
    pieces: list[str] = []
    first = 0
    for word in map(str, record["words"]):
        span = (first, first + len(word))
        pieces += [tag("mark", word, "bad") if span in extra else word, " "]
        first += len(word)
    right = " ".join(map(str, record["gold"]))
    return card(tag("p", join(*pieces), "text"), tag("p", f"← {right}", "soft"))


def _choices(records: Iterator[Record]) -> list[Section]:
    counts: Counter[tuple[str, str]] = Counter()
    worst = _Worst(_choice_card)
    most = 0
    for record in records:
        right, answer = int(record["gold"]), int(record["choice"])
        most = max(most, len(record.get("choices", ())))
        counts[f"{right + 1}", f"{answer + 1}"] += 1
        worst.see(record, right != answer, _sure(record))
    places = [f"{number + 1}" for number in range(most)]
    return [
        Section("Confusion of the choices' places", [matrix_figure(counts, places)]),
        worst.section("Below are those where the model was surest."),
    ]


def _choice_card(record: Record) -> Html:
    choices = list(map(str, record.get("choices", ())))
    lines: list[str] = []
    for number, choice in enumerate(choices):
        if number == record["gold"]:
            lines.append(tag("p", verdict(choice, True)))
        elif number == record["choice"]:
            lines.append(tag("p", verdict(f"{choice} {percent(_sure(record), 0)}", False)))
        else:
            lines.append(tag("p", choice, "soft"))
    return card(*_texts(record), *lines)


def _answers(records: Iterator[Record]) -> list[Section]:
    counts: Counter[tuple[str, str]] = Counter()
    worst = _Worst(_answer_card)
    for record in records:
        right, answer = list(map(str, record["gold"])), str(record["answer"])
        known = ("an answer" if any(right) else NO_ANSWER, "an answer" if answer else NO_ANSWER)
        counts[known] += 1
        same = {one.strip().casefold() for one in right or [""]}
        wrong = answer.strip().casefold() not in same
        worst.see(record, wrong, float(record.get("score", 0.0)))
    both = any(NO_ANSWER in pair for pair in counts)
    return [
        Section("Answered or not", [matrix_figure(counts)] if both else []),
        worst.section("Not letter for letter, that is. Below are those with the highest scores."),
    ]


def _answer_card(record: Record) -> Html:
    right = " · ".join(map(str, record["gold"])) or NO_ANSWER
    answer = str(record["answer"]) or NO_ANSWER
    return card(
        tag("p", str(record.get("question", "")), "text"),
        tag("p", join(verdict(answer, False), f" right: {right}")),
    )


def _texts(record: Record) -> list[Html]:
    """What was asked about."""
    parts = [str(record[key]) for key in ("text", "pair", "question") if record.get(key)]
    return [tag("p", _shortened(part), "text") for part in parts]


def _shortened(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[: MOST_TEXT // 2]} … {text[-MOST_TEXT // 2 :]}"


_KINDS: dict[str, Callable[[Iterator[Any]], list[Section]]] = {
    "tags": _tags,
    "choice": _choices,
    "label": _labels,
    "labels": _label_sets,
    "words": _segmented,
    "answer": _answers,
    "score": _scores,
}
"""In this order: an answer has a score too."""
