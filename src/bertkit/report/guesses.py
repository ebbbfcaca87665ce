"""The same held-out sentences again and again, with what a model guessed at each restart point.

In: RUN/sentences.json and the lines of kind "guesses" in RUN/log.jsonl. Out: cards for a page, and
plain lines for a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertkit.report.log import Record
from bertkit.report.page import Html, card, cards, count, join, paragraph, tag

FILE = "sentences.json"
MOST_MOMENTS = 6
"""So many restart points are shown, the first and the last among them."""

_JOINED = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Characters that are written without spaces around them."""

Guesses = list[list[tuple[str, float]]]
"""Of each sentence, for each of its places: the guessed token and its probability."""


@dataclass(frozen=True)
class Sentence:
    """A sentence's tokens, and the places that are to be guessed."""

    tokens: list[str]
    places: list[int]


def read_sentences(run: Path) -> list[Sentence]:
    """The sentences of a run; none where it keeps none."""
    try:
        told = json.loads((run / FILE).read_text(encoding="utf-8"))
        return [Sentence(list(one["tokens"]), list(one["places"])) for one in told]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def moments(records: Iterable[Record], most: int = MOST_MOMENTS) -> list[tuple[int, Guesses]]:
    """Steps and their guesses, at most `most` of them, evenly apart from the first to the last."""
    found = {one["step"]: one["guesses"] for one in records if one.get("kind") == "guesses"}
    steps = sorted(found)
    if len(steps) > most:
        steps = [steps[round(k * (len(steps) - 1) / (most - 1))] for k in range(most)]
    return [(step, found[step]) for step in steps]


def sentence_cards(
    sentences: Sequence[Sentence], told: Sequence[tuple[int, Guesses]]
) -> list[Html]:
    """A card for each sentence: as it is, then as it was guessed, right guesses in green."""
    told = [one for one in told if _are_of(one[1], sentences)]
    if not sentences or not told:
        return []
    made = []
    for number, sentence in enumerate(sentences):
        lines = [paragraph(tag("b", _written(sentence, {})))]
        for step, guesses in told:
            marks = {
                place: tag("mark", guess, "good" if guess == sentence.tokens[place] else "bad")
                for place, (guess, _) in zip(sentence.places, guesses[number], strict=True)
            }
            lines.append(
                paragraph(tag("small", f"step {count(step)}: "), _written(sentence, marks))
            )
        made.append(card(*lines))
    return [cards(*made)]


def sentence_lines(
    sentences: Sequence[Sentence], told: Sequence[tuple[int, Guesses]], most: int = 3
) -> list[str]:
    """The first few sentences with the newest guesses, each beside the token that was masked."""
    told = [one for one in told if _are_of(one[1], sentences)]
    if not sentences or not told:
        return []
    _, guesses = told[-1]
    lines = []
    for sentence, of_sentence in list(zip(sentences, guesses, strict=True))[:most]:
        marks = {
            place: Html(
                f"[{guess}]" if guess == sentence.tokens[place] else f"[{guess}, not {true}]"
            )
            for place, (guess, _) in zip(sentence.places, of_sentence, strict=True)
            for true in [sentence.tokens[place]]
        }
        lines.append("".join(_pieces(sentence, marks)))
    return lines


def _are_of(guesses: Guesses, sentences: Sequence[Sentence]) -> bool:
    """Whether there is a guess for each place of each sentence, and no other."""
    return list(map(len, guesses)) == [len(sentence.places) for sentence in sentences]


def _written(sentence: Sentence, marks: dict[int, Html]) -> Html:
    return join(*_pieces(sentence, marks))


def _pieces(sentence: Sentence, marks: dict[int, Html]) -> list[str]:
    """Tokens as people write them, with the marks in place of some."""
    pieces: list[str] = []
    before = ""
    for place, token in enumerate(sentence.tokens):
        inside = token.startswith("##") and len(token) > 2
        joined = inside or (_JOINED.match(token) and _JOINED.match(before[-1:]))
        if pieces and not joined:
            pieces.append(" ")
        pieces.append(marks.get(place, token.removeprefix("##") if inside else token))
        before = token
    return pieces
