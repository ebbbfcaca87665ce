"""The reference release's tokenizer restated plainly, and text that is hard to tokenize.

`plain_words` and `plain_tokenize` follow google-research/bert's `tokenization.py` step by step,
without caches, tables or offsets; the fast code of bertkit is compared with them. They ask Python
for Unicode; under a Python whose Unicode is not 14.0, what changed since is left out of the texts.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Collection

from bertkit.text import unicode_tables


def plain_words(text: str, lower_case: bool) -> list[str]:
    """`BasicTokenizer.tokenize`."""
    tokens = _space_cjk(_clean(text)).split()
    parts: list[str] = []
    for token in tokens:
        if lower_case:
            token = unicodedata.normalize("NFD", token.lower())
            token = "".join(char for char in token if unicodedata.category(char) != "Mn")
        parts += _split_on_punctuation(token)
    return " ".join(parts).split()


def plain_tokenize(
    text: str, vocabulary: Collection[str], lower_case: bool, word_limit: int = 200
) -> list[str]:
    """`FullTokenizer.tokenize`."""
    return [
        piece
        for word in plain_words(text, lower_case)
        for piece in _plain_wordpiece(word, vocabulary, word_limit)
    ]


def _clean(text: str) -> str:
    output = []
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            output.append(" ")
        elif ord(char) not in (0, 0xFFFD) and category not in ("Cc", "Cf"):
            output.append(char)
    return "".join(output)


def _space_cjk(text: str) -> str:
    return "".join(f" {char} " if _is_cjk(ord(char)) else char for char in text)


def _is_cjk(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _is_punctuation(char: str) -> bool:
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def _split_on_punctuation(token: str) -> list[str]:
    words: list[list[str]] = []
    new_word = True
    for char in token:
        if _is_punctuation(char):
            words.append([char])
            new_word = True
        else:
            if new_word:
                words.append([])
            new_word = False
            words[-1].append(char)
    return ["".join(word) for word in words]


def _plain_wordpiece(word: str, vocabulary: Collection[str], word_limit: int) -> list[str]:
    if len(word) > word_limit:
        return ["[UNK]"]
    pieces = []
    start = 0
    while start < len(word):
        end = len(word)
        while start < end:
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocabulary:
                break
            end -= 1
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def as_in_unicode_14(char: str) -> bool:
    """Whether this Python has the character as Unicode 14.0 had it."""
    if unicodedata.unidata_version == "14.0.0":
        return True
    kind = unicodedata.category(char)
    if kind not in ("Cc", "Cf", "Zs", "Mn", "Cs"):
        kind = "P" if kind[0] == "P" else ""
    return (
        kind == unicode_tables.category(char)
        and unicodedata.combining(char) == unicode_tables.combining_class(char)
        and unicodedata.normalize("NFD", char) == unicode_tables.decompose(char)
        and char.lower() == unicode_tables.lower(char)
    )


HARD_PARTS = (
    *(
        "Σ",
        "ΟΔΟΣ",
        "ΑΣ\u0301",
        "İstanbul",
        "ǰ",
        "ﬁ",
        "Straße",
        "ẞ",
        "ŉ",
        "Ǆ",
        "한국어",
        "각",
        "가\u11a8",
    ),
    *("e\u0301", "\u0301", "a\u0323\u0301", "a\u0301\u0323", "\u302a", "\u302e\u0301", "क्षि", "ก็"),
    *(
        "中",
        "文",
        "㐀",
        "\U00020000",
        "\U0002b820",
        "\U0002b920",
        "\uf900",
        "\U0002f800",
        "ひ",
        "カ",
    ),
    *(
        "\x00",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x1f",
        "\x85",
        "\xad",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\ufffd",
    ),
    *("\u2028", "\u2029", "\u3000", "\xa0", "\u1680", "\u180e", " ", "\t", "\r\n", "  "),
    *("😀", "👩\u200d👩\u200d👧", "🇨🇭", "❤\ufe0f", "\ud800", "\ue000", "\U0010ffff", "\u0378"),
    *(
        "don't",
        "$5.00",
        "[MASK]",
        "[UNK]",
        "##ing",
        "#",
        "“quoted”",
        "—",
        "…",
        "x" * 199,
        "y" * 201,
    ),
    *("playing", "unaffable", "Running", "THE", "of", "123", "été", "naïve", "Ünïcödé"),
)
"""Parts that touch every rule, and the places where implementations differ."""


def hard_texts(count: int, seed: int = 0) -> list[str]:
    """Random mixtures of `HARD_PARTS` and of code points from the whole of Unicode."""
    draw = random.Random(seed)
    texts = ["", " ", "\x00", "\x1c"]
    while len(texts) < count:
        parts = []
        for _ in range(draw.randint(1, 24)):
            kind = draw.random()
            if kind < 0.6:
                parts.append(draw.choice(HARD_PARTS))
            elif kind < 0.75:
                parts.append(chr(draw.randrange(0x300)))
            elif kind < 0.85:
                parts.append(chr(draw.randrange(0x3400)))
            elif kind < 0.95:
                parts.append(chr(draw.randrange(0x10000)))
            else:
                parts.append(chr(draw.randrange(0x110000)))
        texts.append("".join(filter(as_in_unicode_14, "".join(parts))))
    return texts
