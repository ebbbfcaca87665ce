"""Counting words: the exact rules, by any number of processes, in memory and on disk."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from bertkit.text import word_counts as module
from bertkit.text.word_counts import Batch, WordCounter, WordTable, count_words
from bertkit.text.wordpiece import words
from tests.text.plain_tokenizer import hard_texts, plain_words

TEXTS = [
    *hard_texts(300, seed=21),
    "a b,a\x0bb a\x85b a",
    "书店 书店，书店 unaffable书店 书店，",
    "plain text of plain text",
]


def expected_counts(texts: list[str], lower_case: bool) -> Counter[str]:
    expected: Counter[str] = Counter()
    for text in texts:
        expected.update([word[:201] for word in plain_words(text, lower_case)])
    return expected


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("memo", [1, 1 << 17])
def test_words_are_counted_by_the_exact_rules(
    lower_case: bool, memo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMO_ENTRIES", memo)
    counter = WordCounter(lower_case)
    total: Counter[str] = Counter()
    for start in range(0, len(TEXTS), 7):
        held_out, counts = counter(Batch(False, TEXTS[start : start + 7]))
        assert not held_out
        total.update(counts)
    assert total == expected_counts(TEXTS, lower_case)


def test_a_word_over_the_limit_is_cut_to_one_character_more() -> None:
    text = "a" * 200 + " " + "b" * 201 + " " + "c" * 100_000
    assert WordCounter(True).count([text]) == {"a" * 200: 1, "b" * 201: 1, "c" * 201: 1}
    assert WordCounter(True, word_limit=3).count(["abcd abc"]) == {"abcd": 1, "abc": 1}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("bound", [40, 1 << 20])
def test_counts_are_the_same_for_any_number_of_processes_and_any_bound(
    workers: int, bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 300)
    monkeypatch.setattr(module, "TABLE_WORDS", bound)
    texts = [(number % 5 == 0, text) for number, text in enumerate(TEXTS)]
    learned, held_out = count_words(texts, True, tmp_path / "counts", workers)
    assert bound > 40 or len(list((tmp_path / "counts" / "words").iterdir())) == 64
    for table, side in ((learned, False), (held_out, True)):
        pairs = list(table.items())
        assert len(pairs) == len(dict(pairs))
        assert dict(pairs) == expected_counts([t for held, t in texts if held is side], True)
    assert not list(tmp_path.glob("counts/*"))


def test_a_part_that_is_still_too_large_is_divided_again(tmp_path: Path) -> None:
    draw = random.Random(0)
    table, expected = WordTable(tmp_path / "t", bound=3), Counter[str]()
    for _ in range(40):
        counts = {str(draw.randrange(3000)): draw.randint(1, 9) for _ in range(100)}
        table.add(counts)
        expected.update(counts)
    pairs = list(table.items())
    assert len(pairs) == len(expected)
    assert dict(pairs) == expected
    assert not (tmp_path / "t").exists()


def test_half_a_surrogate_pair_survives_the_disk(tmp_path: Path) -> None:
    table = WordTable(tmp_path / "t", bound=1)
    table.add({"\ud800": 2, "a": 1, "\u2028": 3, "": 4})
    table.add({"\ud800": 1})
    assert dict(table.items()) == {"\ud800": 3, "a": 1, "\u2028": 3, "": 4}


@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_a_long_text_is_cut_where_no_word_is(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_CHARACTERS", size)
    for text in TEXTS:
        parts = list(module._parts(text))
        assert "".join(parts) == text
        for lower_case in (True, False):
            assert [w for part in parts for w in words(part, lower_case)] == words(text, lower_case)


def test_an_endless_line_is_cut_too_if_it_has_a_space_or_a_cjk_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1000)
    assert len(list(module._parts("书" * 100_000))) == 100
    assert len(list(module._parts("ab " * 100_000))) > 250
    assert len(list(module._parts("a" * 100_000))) == 1
