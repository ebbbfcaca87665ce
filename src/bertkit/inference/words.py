"""Texts cut into words: as the tokenizer cuts them, or at white space only.

The words are slices of the untouched text, each with the pieces that the tokenizer makes of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from bertkit.inference.config import Words
from bertkit.tasks.readers import WordsExample
from bertkit.text import characters
from bertkit.text.tokenizer import Pieces, Tokenizer
from bertkit.text.wordpiece import PREFIX

_BETWEEN_SPACES = re.compile(f"[^{re.escape(characters.SEPARATORS)}]+")


class Word(NamedTuple):
    """`text[start:end]` in characters, and the pieces `first:last` of the text."""

    start: int
    end: int
    first: int
    last: int


def find_words(text: str, pieces: Pieces, tokenizer: Tokenizer, cut: Words) -> list[Word]:
    """The words of a text.

    Args:
        text: the text that `pieces` are of.
        cut: "tokenizer" begins a word at white space, punctuation and CJK characters: a piece with
            "##" goes on with a word. "spaces" takes what stands between white space, so a word may
            have no piece (control characters only).
    """
    if cut == "spaces":
        words = []
        for match in _BETWEEN_SPACES.finditer(text):
            first = bisect_left(pieces.starts, match.start())
            last = bisect_left(pieces.starts, match.end())
            words.append(Word(match.start(), match.end(), first, last))
        return words
    words = []
    for number, (entry, start, end) in enumerate(
        zip(pieces.ids, pieces.starts, pieces.ends, strict=True)
    ):
        if words and tokenizer.vocabulary[entry].startswith(PREFIX):
            before = words[-1]
            words[-1] = Word(before.start, max(before.end, end), before.first, number + 1)
        else:
            words.append(Word(start, end, number, number + 1))
    return words


def words_of(text: str, tokenizer: Tokenizer, cut: Words = "tokenizer") -> WordsExample:
    """A text as the example of a tagger: its words, and where each of them stands."""
    words = find_words(text, tokenizer.pieces(text), tokenizer, cut)
    offsets = [(word.start, word.end) for word in words]
    return WordsExample([text[start:end] for start, end in offsets], [], text, offsets)
