"""Unicode 14.0, whatever Python's own version: the properties that the tokenizer's rules ask for.

Comes in: a character, or a text. Goes out: category, combining class, lower case, canonical
decomposition (NFD). Python 3.11 has Unicode 14.0, 3.12 has 15.0 and 3.14 has 16.0; with tables of
their own, tokens do not change with the Python that makes them, and an old checkpoint reads text
as it did when it was trained. The tables are `unicode-14.0.txt` beside this file (40 KB, made by
tools/make_unicode_tables.py), read once, when a character beyond ASCII is first met.

Choices worth knowing:
- The algorithms are those of the standard: Hangul syllables are decomposed by arithmetic, marks are
  put in order by their combining class, a capital sigma takes its final form at the end of a word.
- A code point that Unicode 14.0 had not assigned is a letter without case or decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("unicode-14.0.txt")
_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "Σσς"

# The Unicode standard, section 3.12: a syllable is a leading consonant, a vowel, and perhaps a
# trailing consonant.
_SYLLABLES, _SYLLABLE_COUNT = 0xAC00, 11172
_LEADING, _VOWELS, _TRAILING = 0x1100, 0x1161, 0x11A7
_VOWEL_COUNT, _TRAILING_COUNT = 21, 28


@dataclass
class _Tables:
    categories: dict[int, str] = field(default_factory=dict)  # Cc Cf Zs Mn P
    combining: dict[int, int] = field(default_factory=dict)  # those that are not 0
    lower: dict[int, str] = field(default_factory=dict)  # those that change
    decomposition: dict[int, str] = field(default_factory=dict)  # complete, in canonical order
    cased: set[int] = field(default_factory=set)  # and not ignorable
    ignorable: set[int] = field(default_factory=set)


@cache
def _tables() -> _Tables:
    tables = _Tables()
    for line in _FILE.read_text(encoding="ascii").splitlines():
        name, *entries = line.split(" ")
        if name == "#":
            continue
        if name == "lower":
            for entry in entries:
                run, _, change = entry.partition("/")
                step, distance = int(change[0]), int(change[1:], 16)
                for code in next(_runs([run]))[::step]:
                    tables.lower[code] = chr(code + distance)
        elif name in ("lower:several", "decomposition"):
            table = tables.decomposition if name == "decomposition" else tables.lower
            for entry in entries:
                char, _, parts = entry.partition("=")
                table[int(char, 16)] = "".join([chr(int(part, 16)) for part in parts.split("+")])
        else:
            kind, _, value = name.partition(":")
            for run_codes in _runs(entries):
                if kind == "combining":
                    tables.combining.update(dict.fromkeys(run_codes, int(value)))
                elif kind == "cased":
                    tables.cased.update(run_codes)
                elif kind == "ignorable":
                    tables.ignorable.update(run_codes)
                else:
                    tables.categories.update(dict.fromkeys(run_codes, kind))
    return tables


def _runs(entries: list[str]) -> Iterator[range]:
    for entry in entries:
        first, _, last = entry.partition("-")
        yield range(int(first, 16), int(last or first, 16) + 1)


def category(char: str) -> str:
    """The general category as far as the rules ask for it.

    Cc, Cf, Zs, Mn, Cs (surrogates); "P" for all kinds of punctuation; "" for any other.
    """
    if "\ud800" <= char <= "\udfff":
        return "Cs"
    return _tables().categories.get(ord(char), "")


def combining_class(char: str) -> int:
    """The canonical combining class; 0 for a character that starts a new combining sequence."""
    return _tables().combining.get(ord(char), 0)


class _LowerTable(dict[int, str | int]):
    def __missing__(self, code: int) -> str | int:
        value = self[code] = _tables().lower.get(code) or code
        return value


class _DecompositionTable(dict[int, str | int]):
    def __missing__(self, code: int) -> str | int:
        value: str | int = code
        if 0 <= code - _SYLLABLES < _SYLLABLE_COUNT:
            value = _syllable_parts(code - _SYLLABLES)
        else:
            value = _tables().decomposition.get(code) or code
        self[code] = value
        return value


_LOWER, _DECOMPOSITION = _LowerTable(), _DecompositionTable()


def lower(text: str) -> str:
    """Lower case. Not character by character: a sigma at the end of a word has its own form."""
    if text.isascii():
        return text.lower()
    lowered = text.translate(_LOWER)
    if _SIGMA not in text:
        return lowered
    parts = []
    for place, char in enumerate(text):
        if char == _SIGMA:
            parts.append(_FINAL_SIGMA if _ends_word(text, place) else _SMALL_SIGMA)
        else:
            parts.append(char.translate(_LOWER))
    return "".join(parts)


def _ends_word(text: str, place: int) -> bool:
    """Whether a cased letter stands before `place` and none behind it, ignorable ones apart."""
    tables = _tables()
    before = place - 1
    while before >= 0 and ord(text[before]) in tables.ignorable:
        before -= 1
    if before < 0 or ord(text[before]) not in tables.cased:
        return False
    behind = place + 1
    while behind < len(text) and ord(text[behind]) in tables.ignorable:
        behind += 1
    return behind == len(text) or ord(text[behind]) not in tables.cased


def decompose(text: str) -> str:
    """Canonical decomposition (NFD): accents become characters of their own, in canonical order."""
    if text.isascii():
        return text
    decomposed = text.translate(_DECOMPOSITION)
    combining = _tables().combining
    if combining.keys().isdisjoint(map(ord, decomposed)):
        return decomposed
    parts: list[str] = []
    marks: list[str] = []
    for char in decomposed:
        if ord(char) in combining:
            marks.append(char)
            continue
        if marks:
            parts += in_canonical_order(marks)
            marks = []
        parts.append(char)
    return "".join(parts + in_canonical_order(marks))


def in_canonical_order(marks: list[str]) -> list[str]:
    """A run of marks by combining class; those of one class keep their order."""
    return sorted(marks, key=combining_class)


def _syllable_parts(number: int) -> str:
    leading, rest = divmod(number, _VOWEL_COUNT * _TRAILING_COUNT)
    vowel, trailing = divmod(rest, _TRAILING_COUNT)
    parts = chr(_LEADING + leading) + chr(_VOWELS + vowel)
    return parts + chr(_TRAILING + trailing) if trailing else parts
