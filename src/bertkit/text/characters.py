"""Character classes of BERT's tokenizer: what is white space, control, punctuation, CJK, accent.

Comes in: one character (a string of length 1). Goes out: whether it is in the class. The classes
are those of the reference release's `tokenization.py` (`_is_whitespace`, `_is_control`,
`_is_punctuation`, `_is_chinese_char`) as of 2019-03-28, when control characters became Cc and Cf
only.

Choices worth knowing:
- Everything that depends on a version of Unicode is asked for here and nowhere else: `category`,
  `combining_class`, `decompose` and `lower`. Other rooms of the package never import `unicodedata`.
- The tables at the end give the same classes to `str.translate`, which runs at the speed of C;
  they fill themselves, a character at a time, as characters are met.
"""

from __future__ import annotations

import unicodedata

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

SPLITTING_CONTROLS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""Control characters, to be dropped, that Python's `str.split` would take for white space."""


def category(char: str) -> str:
    """The general category of Unicode, two letters."""
    return unicodedata.category(char)


def combining_class(char: str) -> int:
    """The canonical combining class; 0 for a character that starts a new combining sequence."""
    return unicodedata.combining(char)


def decompose(text: str) -> str:
    """Canonical decomposition (NFD): accents become characters of their own."""
    return unicodedata.normalize("NFD", text)


def lower(text: str) -> str:
    """Lower case. Not character by character: a sigma at the end of a word has its own form."""
    return text.lower()


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
    return category(char).startswith("P")


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


CLEAN = CleanTable()
SPLIT_CASED = SplitTable(strip_accents=False)
SPLIT_LOWER = SplitTable(strip_accents=True)
