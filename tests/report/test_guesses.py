"""Held-out sentences and their guesses, for a page and for a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.report.curves import run_table
from bertkit.report.guesses import (
    Sentence,
    moments,
    read_sentences,
    sentence_cards,
    sentence_lines,
)

ENGLISH = Sentence(["he", "open", "##ed", "the", "<door>"], [2, 4])
CHINESE = Sentence(["我", "们", "去", "北", "京", "ok"], [4])


def record(step: int, first: str, second: str, third: str) -> dict[str, object]:
    return {
        "kind": "guesses",
        "step": step,
        "guesses": [[[first, 0.5], [second, 0.25]], [[third, 0.125]]],
    }


RECORDS = [
    record(10, "the", "the", "的"),
    {"kind": "train", "step": 10},
    record(20, "##ed", "<door>", "海"),
]


def test_a_line_shows_the_newest_guess_beside_the_token_that_was_masked() -> None:
    lines = sentence_lines([ENGLISH, CHINESE], moments(RECORDS))
    assert lines == ["he open[##ed] the [<door>]", "我们去北[海, not 京] ok"]
    assert sentence_lines([ENGLISH, CHINESE], moments(RECORDS[:1]))[0] == (
        "he open[the, not ##ed] the [the, not <door>]"
    )


def test_a_card_shows_the_sentence_and_how_the_guesses_changed() -> None:
    (page,) = sentence_cards([ENGLISH, CHINESE], moments(RECORDS))
    assert "he opened the &lt;door&gt;" in page and "我们去北京 ok" in page
    assert '<mark class="bad">的</mark>' in page
    assert 'open<mark class="good">##ed</mark> the <mark class="good">&lt;door&gt;</mark>' in page
    assert page.index("step 10") < page.index("step 20")


def test_of_many_restart_points_a_few_are_shown_the_first_and_the_last_among_them() -> None:
    told = moments([record(step, "a", "b", "c") for step in range(100, 5100, 100)])
    steps = [step for step, _ in told]
    assert len(steps) == 6 and steps[0] == 100 and steps[-1] == 5000


@pytest.mark.parametrize("content", [None, "", "[1]", '{"a": 1}'])
def test_a_run_without_whole_sentences_shows_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "sentences.json").write_text(content, encoding="utf-8")
    assert read_sentences(tmp_path) == []
    assert sentence_cards([], moments(RECORDS)) == [] == sentence_lines([], moments(RECORDS))
    others = [CHINESE, ENGLISH]  # another number of places: not what was asked
    assert (
        sentence_cards(others, moments(RECORDS)) == [] == sentence_lines(others, moments(RECORDS))
    )


def test_sentences_are_read_as_they_were_written(tmp_path: Path) -> None:
    told = [{"tokens": CHINESE.tokens, "places": CHINESE.places}]
    (tmp_path / "sentences.json").write_text(json.dumps(told), encoding="utf-8")
    assert read_sentences(tmp_path) == [CHINESE]


def test_the_table_of_a_run_holds_a_few_steps_and_only_what_was_logged() -> None:
    records = [
        {"kind": "train", "step": step, "loss": 10 / step, "padding": 0.125, "seconds": step}
        for step in range(1, 101)
    ]
    records.append({"kind": "dev", "step": 100, "loss": 0.5, "nsp_accuracy": 0.75})
    lines = run_table(records).splitlines()
    assert lines[0].split() == ["training", "loss", "padding"]
    assert len(lines) == 1 + 8 + 2
    assert lines[8].split() == ["100", "0.100", "12.5%"]
    assert lines[9].split() == ["held-out", "loss", "next", "sentence"]
    assert lines[10].split() == ["100", "0.500", "75.0%"]
    assert run_table([]) == ""
