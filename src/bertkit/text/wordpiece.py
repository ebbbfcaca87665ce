"""The exact tokenization rules of BERT: text to words, words to WordPieces, with offsets.

Comes in: any text. Goes out: the words of "basic" tokenization, and for each word the ids of its
WordPieces. The rules and their order are those of the reference release's `tokenization.py`:

1. clean: drop U+0000, U+FFFD and controls; every kind of space becomes a space;
2. put spaces around each CJK character;
3. split on white space;
4. if lower-casing: `lower()`, then decompose (NFD) and drop accents (Mn);
5. split each punctuation character off as a word of its own;
6. WordPiece: the longest vocabulary entry first, from the left; a word with a part that matches
   nothing, or of more than 200 characters, is [UNK] as a whole.

Choices worth knowing:
- Rules 1, 3 and 5 look at one character, and 4 at one white-space-delimited token; so nothing in
  one chunk between white space (or one CJK character) changes the result of another. `chunks`
  cuts text that way, and everything that remembers results (the tokenizer's cache, the counting
  of a vocabulary) remembers them by chunk.
- `words` runs on one `str.translate` over a table that has all the rules from 1 to 5, where no
  character needs its neighbours; `aligned_words` gives the same words character by character with
  their places in the untouched text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bertkit.text import characters
from bertkit.text.unicode_tables import combining_class, decompose, lower

WORD_LIMIT = 200
"""Longest word, in characters, that is cut into pieces (reference since 2018-11-23; 100 before)."""

PREFIX = "##"
"""Marks a vocabulary entry that continues a word."""

_CJK = characters.CJK_CLASS
_SPACE = re.escape(characters.SEPARATORS)
_NEEDS_NEIGHBOURS = re.compile(f"[Σ{characters.REORDERED}]")

CHUNK = re.compile(f"[{_CJK}]|[^{_CJK}{_SPACE}]+")
"""One CJK character, or a run of anything else between white space and CJK characters."""


def chunks(text: str) -> list[str]:
    """Cuts text into parts that are tokenized independently of each other."""
    return CHUNK.findall(text)


def words(text: str, lower_case: bool) -> list[str]:
    """Rules 1 to 5: the words of basic tokenization (the reference's `BasicTokenizer`)."""
    if not lower_case:
        return text.translate(characters.WORDS_CASED).split()
    if text.isascii() or not _NEEDS_NEIGHBOURS.search(text):
        return text.translate(characters.WORDS_LOWER).split()
    tokens = text.translate(characters.CLEAN).split()
    # Joined only after lower-casing, which depends on where a token ends: final sigma.
    lowered = " ".join([lower(token) for token in tokens])
    return decompose(lowered).translate(characters.SPLIT_LOWER).split()


def unchanged_words(text: str, lower_case: bool) -> list[str] | None:
    """The words of a text each of whose characters makes one character of a word; else None.

    Laid end to end they are as long as the text, which tells their places.
    """
    if not text.isascii() or not text.isprintable() or " " in text:
        if lower_case and _NEEDS_NEIGHBOURS.search(text):
            return None
        table = characters.SAME_LENGTH_LOWER if lower_case else characters.SAME_LENGTH_CASED
        if len(text.translate(table)) != len(text):
            return None
    return words(text, lower_case)


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word and where it comes from.

    Attributes:
        text: the word after all normalising.
        starts: for each character of `text` the place of its source in the original text.
        ends: one past the last original character that it stands for. A dropped accent counts
            to the character before it, so that the "e" made of "e" + U+0301 covers both.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def aligned_words(text: str, lower_case: bool) -> list[AlignedWord]:
    """The words of `words(text, lower_case)` with the place of each character in `text`."""
    plain = unchanged_words(text, lower_case)
    if plain is None:
        return _traced_words(text, lower_case)
    found: list[AlignedWord] = []
    done = 0
    for word in plain:
        start, done = done, done + len(word)
        found.append(AlignedWord(word, range(start, done), range(start + 1, done + 1)))
    return found


def _traced_words(text: str, lower_case: bool) -> list[AlignedWord]:
    found: list[AlignedWord] = []
    token: list[tuple[str, int]] = []  # characters of one token with their places
    for place, char in enumerate(text):
        cleaned = characters.CLEAN[ord(char)]
        if cleaned is None:
            continue
        if isinstance(cleaned, int):
            token.append((char, place))
            continue
        found += _split_token(token, lower_case)
        token = []
        if cleaned != " ":
            found += _split_token([(char, place)], lower_case)
    return found + _split_token(token, lower_case)


def _split_token(token: list[tuple[str, int]], lower_case: bool) -> list[AlignedWord]:
    """Rules 4 and 5 for one white-space-delimited token."""
    if lower_case:
        token = _decomposed(_lowered(token))
    table = characters.SPLIT_LOWER if lower_case else characters.SPLIT_CASED
    found: list[AlignedWord] = []
    word: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    latest = ends  # the ends of the word that a dropped accent would extend

    def finish() -> None:
        nonlocal word, starts, ends
        if word:
            found.append(AlignedWord("".join(word), starts, ends))
            word, starts, ends = [], [], []

    for char, place in token:
        kind = table[ord(char)]
        if kind is None:
            if latest:
                latest[-1] = max(latest[-1], place + 1)
            continue
        if isinstance(kind, str):
            finish()
        word.append(char)
        starts.append(place)
        ends.append(place + 1)
        latest = ends
        if isinstance(kind, str):
            finish()
    finish()
    return found


def _lowered(token: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Lower-cases a token as a whole; "İ" becomes two characters from one place."""
    lowered = lower("".join([char for char, _ in token]))
    if len(lowered) == len(token):
        return [(char, place) for char, (_, place) in zip(lowered, token, strict=True)]
    places = [place for char, place in token for _ in lower(char)]
    return list(zip(lowered, places, strict=True))


def _decomposed(token: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """NFD of a token: each character decomposed, then runs of marks put in canonical order."""
    if all(char < "\x80" for char, _ in token):
        return token
    parts = [(part, place) for char, place in token for part in decompose(char)]
    ordered: list[tuple[str, int]] = []
    marks: list[tuple[str, int]] = []
    for part in parts:
        if combining_class(part[0]):
            marks.append(part)
            continue
        if marks:
            ordered += sorted(marks, key=lambda mark: combining_class(mark[0]))
            marks = []
        ordered.append(part)
    return ordered + sorted(marks, key=lambda mark: combining_class(mark[0]))


@dataclass
class WordPieces:
    """A vocabulary ready for greedy longest-match-first (rule 6).

    Args:
        vocabulary: the entries; an entry's id is its place.
        word_limit: longest word, in characters, that is not [UNK] at once.
    """

    vocabulary: Sequence[str]
    word_limit: int = WORD_LIMIT
    unknown: int = field(init=False)

    def __post_init__(self) -> None:
        self._starts = {entry: number for number, entry in enumerate(self.vocabulary)}
        self.unknown = self._starts["[UNK]"]
        # Without "##", so that matching makes no new strings but the slices themselves.
        self._continuations = {
            entry.removeprefix(PREFIX): number
            for number, entry in enumerate(self.vocabulary)
            if entry.startswith(PREFIX)
        }
        self._longest_start = max(map(len, self._starts))
        self._longest_continuation = max(map(len, self._continuations), default=0)

    def ids(self, word: str) -> list[int]:
        """The ids of a word's pieces; `[unknown]` when they don't cover it."""
        whole = self._starts.get(word)
        if whole is not None and len(word) <= self.word_limit:
            return [whole]
        return [number for number, _, _ in self.split(word)]

    def split(self, word: str) -> list[tuple[int, int, int]]:
        """The pieces of a word as (id, first character, one past the last character)."""
        length = len(word)
        if length > self.word_limit:
            return [(self.unknown, 0, length)]
        whole = self._starts.get(word)
        if whole is not None:
            return [(whole, 0, length)]
        pieces: list[tuple[int, int, int]] = []
        table, longest, start = self._starts, self._longest_start, 0
        while start < length:
            end = min(length, start + longest)
            while end > start:
                number = table.get(word[start:end])
                if number is not None:
                    break
                end -= 1
            else:
                return [(self.unknown, 0, length)]
            pieces.append((number, start, end))  # type: ignore[arg-type]
            table, longest, start = self._continuations, self._longest_continuation, end
        return pieces
