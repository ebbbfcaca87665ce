"""Writes the tables of Unicode that the tokenizer reads, from Python's own.

    python3.11 tools/make_unicode_tables.py        # Python 3.11 has Unicode 14.0

Only the properties that the rules ask for go in, as runs of code points in hexadecimal. `Cased`
and `Case_Ignorable` have no function in Python and are found by what they do: a capital sigma is
lowered to its final form behind a cased letter; ignorable characters between the two don't count.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = "14.0.0"
TABLES = Path(__file__).parent.parent / "src" / "bertkit" / "text" / "unicode-14.0.txt"
CATEGORIES = ("Cc", "Cf", "Zs", "Mn", "P")
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic


def runs(codes: Iterable[int]) -> str:
    """Sorted code points as "first" or "first-last"."""
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in found)


def lower_runs() -> Iterator[str]:
    """Lower case of single characters: first-last/step+distance, all in hexadecimal."""
    found: list[list[int]] = []  # first, last, step, distance
    for code in range(sys.maxunicode + 1):
        lowered = chr(code).lower()
        if len(lowered) != 1 or lowered == chr(code):
            continue
        distance = ord(lowered) - code
        if found and found[-1][3] == distance:
            first, last, step, _ = found[-1]
            if (first == last and code - last <= 2) or (first < last and code - last == step):
                found[-1][1:3] = [code, code - last]
                continue
        found.append([code, code, 1, distance])
    for first, last, step, distance in found:
        yield f"{first:X}-{last:X}/{step}{distance:+X}"


def lines() -> Iterator[str]:
    """The file's lines: a name, then its runs or entries."""
    yield f"# Unicode {VERSION}, the part that BERT's tokenizer asks for; made by"
    yield "# tools/make_unicode_tables.py. Code points in hexadecimal; see unicode_tables.py."
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    categories = [unicodedata.category(char) for char in every]
    for name in CATEGORIES:
        yield f"{name} " + runs(c for c, category in enumerate(categories) if name in category)
    yield "cased " + runs(c for c, char in enumerate(every) if (char + "Σ").lower()[-1] == "ς")
    yield "ignorable " + runs(
        c
        for c, char in enumerate(every)
        if ("A" + char + "Σ").lower()[-1] == "ς" and (char + "Σ").lower()[-1] == "σ"
    )
    classes = [unicodedata.combining(char) for char in every]
    for number in sorted(set(classes) - {0}):
        yield f"combining:{number} " + runs(c for c, other in enumerate(classes) if other == number)
    yield "lower " + " ".join(lower_runs())
    yield "lower:several " + " ".join(
        f"{c:X}=" + "+".join(f"{ord(part):X}" for part in char.lower())
        for c, char in enumerate(every)
        if len(char.lower()) > 1
    )
    yield "decomposition " + " ".join(
        f"{c:X}=" + "+".join(f"{ord(part):X}" for part in unicodedata.normalize("NFD", char))
        for c, char in enumerate(every)
        if c not in HANGUL and unicodedata.normalize("NFD", char) != char
    )


if __name__ == "__main__":
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}; use Python 3.11")
    TABLES.write_text("\n".join(lines()) + "\n", encoding="ascii")
    print(f"{TABLES}: {TABLES.stat().st_size:,} bytes")
