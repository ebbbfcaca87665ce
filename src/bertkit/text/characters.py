"""Character classes of BERT's tokenizer: what is white space, control, punctuation, CJK, accent.

Comes in: one character (a string of length 1). Goes out: whether it is in the class. The classes
are those of the reference release's `tokenization.py` (`_is_whitespace`, `_is_control`,
`_is_punctuation`, `_is_chinese_char`) as of 2019-03-28, when control characters became Cc and Cf
only.

Choices worth knowing:
- Everything that depends on a version of Unicode comes from `unicode_tables.py`, which has 14.0.
- The tables at the end give the rules to `str.translate`, which runs at the speed of C; they fill
  themselves, a character at a time, as characters are met.
"""

from __future__ import annotations

from bertkit.text.unicode_tables import category, decompose, lower

CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""First and last code point of each block whose characters stand alone. Hangul, Hiragana and
Katakana are not among them: they are written with spaces or inflect, and go through WordPiece."""

SEPARATORS = (
    "\t\n\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Every character that ends a word without being part of one: `is_whitespace`, and the line and
paragraph separators U+2028 and U+2029, which the reference leaves for Python's `split`."""

REORDERED = (
    "\u1715\u1734\u1b44\u1baa\u1bf2\u1bf3\u302e\u302f\ua953\ua9c0\U000111c0\U00011235\U0001134d"
    "\U000116b6\U0001193d\U00016ff0\U00016ff1\U0001d15e\U0001d15f\U0001d160\U0001d161\U0001d162"
    "\U0001d163\U0001d164\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d16f\U0001d170\U0001d171"
    "\U0001d172\U0001d1bb\U0001d1bc\U0001d1bd\U0001d1be\U0001d1bf\U0001d1c0"
)
"""Characters with a mark that decomposition can move and that isn't dropped with the accents."""

SPLITTING_CONTROLS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""Control characters, to be dropped, that Python's `str.split` would take for white space."""
_DROP_SPLITTING_CONTROLS = dict.fromkeys(map(ord, SPLITTING_CONTROLS))

CJK_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK_RANGES)
"""The CJK characters as the inside of a regular expression's brackets."""


def without_splitting_controls(text: str) -> str:
    """A text that `str.split` cuts at white space only, the controls dropped."""
    for control in SPLITTING_CONTROLS:  # a loop of `in` costs a thirtieth of a regex search
        if control in text:
            return text.translate(_DROP_SPLITTING_CONTROLS)
    return text


def is_whitespace(char: str) -> bool:
    """Tab, newline, carriage return, and the space separators (Zs)."""
    return char in "\t\n\r" or category(char) == "Zs"


def is_control(char: str) -> bool:
    """Control (Cc) and format (Cf) characters, without tab, newline and carriage return."""
    return char not in "\t\n\r" and category(char) in ("Cc", "Cf")


def is_dropped(char: str) -> bool:
    """What cleaning removes: controls, U+0000 and the replacement character U+FFFD."""
    return char in "\0\ufffd" or is_control(char)


def is_punctuation(char: str) -> bool:
    """Categories P*, and all of ASCII's symbols: $ + < = > ^ ` | ~ are symbols to Unicode."""
    code = ord(char)
    if code < 128:
        return 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return category(char) == "P"


def is_cjk(char: str) -> bool:
    """Whether the character is in one of the CJK ideograph blocks (`CJK_RANGES`)."""
    code = ord(char)
    return code >= 0x3400 and any(first <= code <= last for first, last in CJK_RANGES)


def is_accent(char: str) -> bool:
    """Non-spacing marks (Mn), which lower-casing removes after decomposition."""
    return category(char) == "Mn"


class CleanTable(dict[int, int | str | None]):
    """For `str.translate`: cleans text and puts spaces around CJK characters, in one pass.

    A code point's value is None where the character is dropped, a space where it separates, the
    character between two spaces where it is CJK, and otherwise itself.
    """

    def __missing__(self, code: int) -> int | str | None:
        char = chr(code)
        value: int | str | None = code
        if is_dropped(char):
            value = None
        elif char in SEPARATORS:
            value = " "
        elif is_cjk(char):
            value = f" {char} "
        self[code] = value
        return value


class SplitTable(dict[int, int | str | None]):
    """For `str.translate`: puts spaces around punctuation and, if asked to, drops accents."""

    def __init__(self, strip_accents: bool) -> None:
        super().__init__()
        self.strip_accents = strip_accents

    def __missing__(self, code: int) -> int | str | None:
        char = chr(code)
        value: int | str | None = code
        if is_punctuation(char):
            value = f" {char} "
        elif self.strip_accents and is_accent(char):
            value = None
        self[code] = value
        return value


class WordTable(dict[int, int | str | None]):
    """For `str.translate`: all the rules from text to words in one pass, then `split`.

    Cleaning, CJK spacing, lower-casing, decomposition, dropping accents and splitting punctuation
    off, each applied to what the one before makes of the character. That is the whole of the rules
    but for two cases that need to see the neighbours: a capital sigma and `REORDERED`.
    """

    def __init__(self, lower_case: bool) -> None:
        super().__init__()
        self.lower_case = lower_case

    def __missing__(self, code: int) -> int | str | None:
        made = chr(code).translate(CLEAN)
        if self.lower_case:
            made = decompose(lower(made))
        made = made.translate(SPLIT_LOWER if self.lower_case else SPLIT_CASED)
        value = self[code] = code if made == chr(code) else made or None
        return value


class SameLengthTable(dict[int, int | None]):
    """For `str.translate`: drops all characters but those that make one character of a word.

    So what keeps its length has words that are, character for character, where their text is.
    """

    def __init__(self, words: WordTable) -> None:
        super().__init__()
        self.words = words

    def __missing__(self, code: int) -> int | None:
        made = chr(code).translate(self.words).replace(" ", "")
        value = self[code] = 0x31 if len(made) == 1 else None
        return value


CLEAN = CleanTable()
SPLIT_CASED = SplitTable(strip_accents=False)
SPLIT_LOWER = SplitTable(strip_accents=True)
WORDS_CASED = WordTable(lower_case=False)
WORDS_LOWER = WordTable(lower_case=True)
SAME_LENGTH_CASED = SameLengthTable(WORDS_CASED)
SAME_LENGTH_LOWER = SameLengthTable(WORDS_LOWER)
