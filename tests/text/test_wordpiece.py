"""The exact rules: words, WordPieces and their places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.text.wordpiece import WordPieces, aligned_words, chunks, words
from tests.text.plain_tokenizer import hard_texts, plain_words


@pytest.fixture
def pieces() -> WordPieces:
    return WordPieces(["[UNK]", "un", "##aff", "##able", "##a", "want", "##want", "##ed", "runn"])


def texts_of(pieces: WordPieces, word: str) -> list[str]:
    return [pieces.vocabulary[number] for number in pieces.ids(word)]


def test_the_longest_piece_comes_first(pieces: WordPieces) -> None:
    assert texts_of(pieces, "unaffable") == ["un", "##aff", "##able"]
    assert texts_of(pieces, "unwanted") == ["un", "##want", "##ed"]


def test_one_unmatched_part_makes_the_whole_word_unknown(pieces: WordPieces) -> None:
    assert texts_of(pieces, "unwantedx") == ["[UNK]"]
    assert pieces.split("unwantedx") == [(0, 0, 9)]


def test_a_word_of_more_than_200_characters_is_unknown(pieces: WordPieces) -> None:
    word = "un" + "a" * 198
    assert len(pieces.ids(word)) == 199
    assert texts_of(pieces, word + "a") == ["[UNK]"]


def test_the_old_word_limit_of_100_is_an_option() -> None:
    old = WordPieces(["[UNK]", "a", "##a"], word_limit=100)
    assert len(old.ids("a" * 100)) == 100
    assert old.ids("a" * 101) == [0]


@pytest.mark.parametrize(
    ("text", "lower_case", "expected"),
    [
        (" \tHeLLo!how  \n Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("H\u00e9llo", True, ["hello"]),
        ("H\u00e9llo", False, ["H\u00e9llo"]),
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        ("a\u0000b\u200bc\ufffdd", True, ["abcd"]),
        ("a\u000cb\u001fc", True, ["abc"]),
        ("a\u2028b\u2029c\u3000d", True, ["a", "b", "c", "d"]),
        ("ΟΔΟΣ ΟΔΟΣ中", True, ["οδος", "οδος", "中"]),
        ("İ", True, ["i"]),
        ("한", True, ["\u1112\u1161\u11ab"]),
        ("$5^2", True, ["$", "5", "^", "2"]),
        ("[MASK]", True, ["[", "mask", "]"]),
        ("😀", True, ["😀"]),
        ("", True, []),
    ],
)
def test_words_of_basic_tokenization(text: str, lower_case: bool, expected: list[str]) -> None:
    assert words(text, lower_case) == expected


@pytest.mark.parametrize("lower_case", [True, False])
def test_words_agree_with_the_reference_on_hard_text(lower_case: bool) -> None:
    for text in hard_texts(1200, seed=1):
        assert words(text, lower_case) == plain_words(text, lower_case), repr(text)


@pytest.mark.parametrize("lower_case", [True, False])
def test_words_do_not_cross_chunks(lower_case: bool) -> None:
    for text in hard_texts(1200, seed=2):
        parts = [word for chunk in chunks(text) for word in words(chunk, lower_case)]
        assert parts == words(text, lower_case), repr(text)


def test_words_of_all_squad_questions(shared_data: Path) -> None:
    golden = shared_data / "golden"
    expected = json.loads((golden / "basic_tokenized_questions.json").read_text("utf-8"))
    questions = json.loads((golden / "question_tokens.json").read_text("utf-8"))
    assert len(expected) == len(questions) == 10570
    assert [words(question["original"], lower_case=True) for question in questions] == expected


@pytest.mark.parametrize("lower_case", [True, False])
def test_aligned_words_are_the_words(lower_case: bool) -> None:
    for text in hard_texts(1200, seed=3):
        found = aligned_words(text, lower_case)
        assert [word.text for word in found] == words(text, lower_case), repr(text)
        for chunk in chunks(text):
            aligned = [word.text for word in aligned_words(chunk, lower_case)]
            assert aligned == words(chunk, lower_case), repr(chunk)


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_word_is_what_its_place_in_the_text_normalizes_to(lower_case: bool) -> None:
    for text in hard_texts(1200, seed=4):
        for word in aligned_words(text, lower_case):
            assert len(word.text) == len(word.starts) == len(word.ends)
            assert all(a < b for a, b in zip(word.starts, word.ends, strict=True))
            source = text[min(word.starts) : max(word.ends)]
            # the final form of sigma depends on what follows in the text
            normal = words(source, lower_case)
            assert [part.replace("ς", "σ") for part in normal] == [word.text.replace("ς", "σ")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("café", [("cafe", [0, 1, 2, 3], [1, 2, 3, 4])]),
        ("cafe\u0301s", [("cafes", [0, 1, 2, 3, 5], [1, 2, 3, 5, 6])]),
        ("İa", [("ia", [0, 1], [1, 2])]),
        ("a\x00b", [("ab", [0, 2], [1, 3])]),
        ("x中y", [("x", [0], [1]), ("中", [1], [2]), ("y", [2], [3])]),
        ("각", [("\u1100\u1161\u11a8", [0, 0, 0], [1, 1, 1])]),
        ("\u0301a", [("a", [1], [2])]),
        ("  a,", [("a", [2], [3]), (",", [3], [4])]),
    ],
)
def test_places_of_characters_that_change(
    text: str, expected: list[tuple[str, list[int], list[int]]]
) -> None:
    found = [(w.text, list(w.starts), list(w.ends)) for w in aligned_words(text, lower_case=True)]
    assert found == expected
