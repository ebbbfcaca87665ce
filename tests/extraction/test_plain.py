"""Plain text: hard wraps go, paragraphs stay, and Project Gutenberg keeps its licence."""

from __future__ import annotations

import textwrap
import time

import pytest

from bertkit.extraction.plain import to_paragraphs, without_gutenberg

PROSE = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
    "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the "
    "season of Light, it was the season of Darkness, it was the spring of hope."
)
CHINESE = (
    "今天天气很好我们一起去上学路上看见很多人他们都在说话而且非常高兴因为明天放假了" * 3 + "。"
)


@pytest.mark.parametrize("width", [40, 65, 72, 100])
def test_hard_wraps_go_and_paragraphs_stay(width: int) -> None:
    wrapped = "\n\n".join(textwrap.fill(PROSE, width) for _ in range(3))
    assert to_paragraphs(wrapped) == "\n\n".join([PROSE] * 3)


def test_chinese_lines_are_joined_without_a_space() -> None:
    wrapped = "\n".join(CHINESE[start : start + 30] for start in range(0, len(CHINESE), 30))
    assert to_paragraphs(f"{wrapped}\n\n{wrapped}\n") == f"{CHINESE}\n\n{CHINESE}"


def test_an_indented_line_begins_a_paragraph() -> None:
    wrapped = "\n".join(textwrap.fill(PROSE, 60, initial_indent="   ") for _ in range(3))
    assert to_paragraphs(wrapped) == "\n\n".join([PROSE] * 3)


def test_lines_of_different_lengths_are_paragraphs() -> None:
    lines = [PROSE, "Yes.", PROSE * 2, "He said no, and went.", PROSE]
    assert to_paragraphs("\r\n".join(lines).replace("\r", "")) == "\n\n".join(lines)


def test_hyphens_at_line_ends_are_known_by_the_other_words() -> None:
    filler = textwrap.fill(PROSE, 40)
    middle = (
        "and the in-\nformation was given to the well-\n"
        "known man of the information\noffice--\nyes."
    )
    text = f"{filler}\n{middle}\n\n{filler}\n\n{filler}"
    found = to_paragraphs(text)
    assert "the information was given to the well-known man" in found
    assert "office--yes." in found


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t\n"])
def test_nothing_gives_nothing(text: str) -> None:
    assert to_paragraphs(text) == ""


def test_one_endless_line_and_endless_lines_take_linear_time() -> None:
    started = time.monotonic()
    line = "word " * 2_000_000
    assert len(to_paragraphs(line)) == len(line) - 1
    assert to_paragraphs("x\n" * 500_000).count("x") == 500_000
    assert to_paragraphs("-\n" * 300_000)
    assert time.monotonic() - started < 20


BOOK = """\ufeffThe Project Gutenberg EBook of A Book, by A. Writer

Title: A Book
       of Things

Author: A. Writer

*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***

Produced by Some One and the
Distributed Proofreaders

CHAPTER I

It _was_ so. [Illustration: A man
with a dog] He said _no
more_ and went.

{end} of the Project Gutenberg EBook of A Book

*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***
Licence text.
"""


def test_gutenbergs_header_and_licence_go() -> None:
    body, title = without_gutenberg(BOOK.format(end="End"))
    assert title == "A Book of Things"
    assert to_paragraphs(body) == "CHAPTER I\n\nIt was so. He said no more and went."
    other = "A text that speaks of Project Gutenberg, but is not from it.\n_x_"
    assert without_gutenberg(other) == (other, "")


def test_a_cut_book_loses_only_its_header() -> None:
    body, _ = without_gutenberg(BOOK.split("{end}")[0])
    assert body.strip().startswith("CHAPTER I") and body.strip().endswith("and went.")


@pytest.mark.parametrize(
    "start",
    [
        "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
        "*END THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*  ",
        "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK\nOF MANY WORDS ***",
        "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK",  # nothing closes it
    ],
)
def test_a_header_ends_where_its_last_line_does(start: str) -> None:
    chapters = "Call me so.\n\n***\n\n" + "It was a long book.\n" * 10_000
    book = f"The Project Gutenberg Etext of A Book\n\nTitle: A Book\n\n{start}\n\n{chapters}"
    assert without_gutenberg(book) == (f"\n\n{chapters}", "A Book")
