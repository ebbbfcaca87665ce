"""The tables of Unicode 14.0: they are Python 3.11's, and text is the same under any Python."""

from __future__ import annotations

import hashlib
import random
import runpy
import sys
import unicodedata
from pathlib import Path

import pytest

from bertkit.text import unicode_tables
from bertkit.text.wordpiece import words

ALL = [chr(code) for code in range(sys.maxunicode + 1)]
MAKE = Path(__file__).parents[2] / "tools" / "make_unicode_tables.py"
unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="this Python's Unicode is not 14.0"
)


@unicode_14
def test_every_code_point_has_the_properties_of_unicode_14() -> None:
    for char in ALL:
        category = unicodedata.category(char)
        if category not in ("Cc", "Cf", "Zs", "Mn", "Cs"):
            category = "P" if category[0] == "P" else ""
        assert unicode_tables.category(char) == category
        assert unicode_tables.combining_class(char) == unicodedata.combining(char)
        assert unicode_tables.decompose(char) == unicodedata.normalize("NFD", char)
        assert unicode_tables.lower(char) == char.lower()


@pytest.mark.slow
@unicode_14
def test_a_sigma_is_final_beside_every_code_point_as_in_python() -> None:
    for char in ALL:
        for text in (f"{char}Σ", f"A{char}Σ", f"AΣ{char}", f"AΣ{char}b"):
            assert unicode_tables.lower(text) == text.lower(), repr(text)


@unicode_14
def test_the_file_is_what_its_script_makes() -> None:
    made = "\n".join(runpy.run_path(str(MAKE))["lines"]()) + "\n"
    stored = (Path(unicode_tables.__file__).parent / "unicode-14.0.txt").read_text("ascii")
    assert made == stored
    assert len(stored) < 100_000


@unicode_14
def test_random_texts_are_lowered_and_decomposed_as_in_python() -> None:
    draw = random.Random(3)
    marks = [char for char in ALL if unicodedata.combining(char)]
    for _ in range(3000):
        text = "".join(
            draw.choice(marks)
            if draw.random() < 0.5
            else draw.choice("aΣÉ각가中 \ud800ǅ\u1100\u1161")
            for _ in range(draw.randint(1, 12))
        )
        assert unicode_tables.decompose(text) == unicodedata.normalize("NFD", text), repr(text)
        assert unicode_tables.lower(text) == text.lower(), repr(text)


@pytest.mark.parametrize(
    ("char", "since"),
    [
        ("\u1c89", "16.0: a Cyrillic capital letter"),
        ("\U00011241", "15.0: a vowel sign, Mn"),
        ("\U00010d50", "16.0: a Garay capital letter"),
        ("\U000105c9", "16.0: a Todhri letter that decomposes"),
        ("\U00010d6e", "16.0: a hyphen, Pd"),
    ],
)
def test_what_unicode_14_had_not_assigned_is_a_letter_under_every_python(
    char: str, since: str
) -> None:
    assert unicode_tables.category(char) == "", since
    assert unicode_tables.lower(f"A{char}") == f"a{char}"
    assert unicode_tables.decompose(char) == char
    assert unicode_tables.combining_class(char) == 0


@pytest.mark.slow
def test_words_with_every_code_point_are_the_same_under_every_python() -> None:
    """The digest is Python 3.11's, which agrees with the plain rules; 3.12 and 3.13 make it too."""
    digest = hashlib.sha256()
    for lower_case in (True, False):
        for char in ALL:
            found = words(f"A{char}\u0301Σ{char}b", lower_case)
            digest.update("\n".join(found).encode("utf-8", "surrogatepass") + b"\0")
    assert digest.hexdigest() == (
        "761bd1afaeb8259c7195f252dad2162298351e88729c55378878bd4fe67b63a9"
    )
