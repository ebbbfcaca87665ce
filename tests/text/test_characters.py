"""Character classes of the tokenizer."""

from __future__ import annotations

import sys

import pytest

from bertkit.text import characters
from bertkit.text.unicode_tables import category, combining_class, decompose, lower

ALL = [chr(code) for code in range(sys.maxunicode + 1)]


def test_separators_are_all_that_the_reference_splits_on_after_dropping_controls() -> None:
    expected = {
        char for char in ALL if (char.isspace() and category(char) != "Cc") or char in "\t\n\r"
    }
    assert set(characters.SEPARATORS) == expected
    assert {char for char in ALL if characters.is_whitespace(char)} == expected - {
        "\u2028",
        "\u2029",
    }


def test_splitting_controls_are_all_controls_that_python_takes_for_space() -> None:
    expected = {char for char in ALL if char.isspace() and characters.is_dropped(char)}
    assert set(characters.SPLITTING_CONTROLS) == expected


def test_reordered_are_all_with_a_mark_that_is_moved_and_kept() -> None:
    moved = {char for char in ALL if combining_class(char) and not characters.is_accent(char)}
    expected = {char for char in ALL if not moved.isdisjoint(decompose(lower(char)))}
    assert set(characters.REORDERED) == expected


def test_controls_are_cc_and_cf_but_not_unassigned_or_private() -> None:
    assert characters.is_control("\x00")
    assert characters.is_control("\u200d")
    assert not any(characters.is_control(char) for char in "\t\n\r a")
    assert not characters.is_control("\u0378")  # Cn
    assert not characters.is_control("\ue000")  # Co
    assert not characters.is_control("\ud800")  # Cs


def test_null_and_the_replacement_character_are_dropped() -> None:
    assert characters.is_dropped("\0")
    assert characters.is_dropped("\ufffd")
    assert not characters.is_dropped("\ufffc")


def test_ascii_symbols_count_as_punctuation() -> None:
    ascii_punctuation = "".join(
        chr(code) for code in range(128) if characters.is_punctuation(chr(code))
    )
    assert ascii_punctuation == "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


@pytest.mark.parametrize("char", "。、“”—…¿·")
def test_punctuation_of_other_scripts_is_punctuation(char: str) -> None:
    assert characters.is_punctuation(char)


@pytest.mark.parametrize("char", "€©°×á中")
def test_symbols_beyond_ascii_are_not_punctuation(char: str) -> None:
    assert not characters.is_punctuation(char)


def test_cjk_blocks_have_the_reference_bounds() -> None:
    for first, last in characters.CJK_RANGES:
        assert characters.is_cjk(chr(first))
        assert characters.is_cjk(chr(last))
    # 2B820 to 2B91F is where the ready-made Rust preset has a typo
    assert all(characters.is_cjk(chr(code)) for code in range(0x2B820, 0x2CEAF + 1))
    assert sum(map(characters.is_cjk, ALL)) == sum(
        last - first + 1 for first, last in characters.CJK_RANGES
    )


@pytest.mark.parametrize("char", "ひカ한ー。a")
def test_kana_hangul_and_punctuation_are_not_cjk(char: str) -> None:
    assert not characters.is_cjk(char)


def test_the_tables_say_what_the_functions_say() -> None:
    cased, lower = characters.SplitTable(False), characters.SplitTable(True)
    for char in ALL[:0x3400] + ALL[0x3400::23]:
        code = ord(char)
        cleaned = characters.CLEAN[code]
        assert (cleaned is None) == characters.is_dropped(char)
        assert (cleaned == " ") == (char in characters.SEPARATORS)
        assert (cleaned == f" {char} ") == (characters.is_cjk(char))
        punctuation = f" {char} " if characters.is_punctuation(char) else code
        assert cased[code] == punctuation
        accent = None if characters.is_accent(char) else punctuation
        assert lower[code] == accent


def test_the_table_of_words_has_all_rules_in_one() -> None:
    assert "Éa,中\u200b\u3000b".translate(characters.WORDS_LOWER) == "ea ,  中  b"
    assert "Éa,中\u200b\u3000b".translate(characters.WORDS_CASED) == "Éa ,  中  b"
    assert "\u037e\uf900\u0301각".translate(characters.WORDS_LOWER) == " ;  豈 \u1100\u1161\u11a8"
