"""Plain text in, paragraphs divided by a blank line out: hard wraps and licences go.

Whether lines are wrapped is seen from the whole text: in wrapped text the first word of a line
would not have fit on the line before. Otherwise every line is a paragraph, as most software writes
them. In wrapped text a paragraph ends at a blank line, before an indented line, and, where blank
lines are rare, after a short line with the end of a sentence.

Of a Project Gutenberg book the header, the licence and marks of illustrations and italics go.
"""

from __future__ import annotations

import itertools
import re

_WIDEST = 200
"""Characters of the longest line that is still taken for wrapped."""

_FULL = 0.9
"""Share of the width from which a line is full, for people do not wrap exactly."""

_WRAPPED = 0.7
"""Share of lines inside paragraphs that must be full in wrapped text."""

_LONG_BLOCK = 15
"""Lines of a block from which it is more than one paragraph."""

_CJK = re.compile("[\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’»」』)）]*$")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")

# "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", where a long title makes it several lines but
# no blank one, and before 2006 "*END*THE SMALL PRINT!..."
_START = re.compile(
    r"^[ \t]*(?:\*{3}[ \t]*START OF (?:THE|THIS) PROJECT GUTENBERG E(?:BOOK|TEXT)"
    r"(?:(?:(?!\n[ \t]*\n).){0,500}?\*{3}|[^\n]*)"
    r"|\*END[ \t]?\*?[ \t]?THE SMALL PRINT![^\n]*)[ \t]*$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_END = re.compile(
    r"^[ \t]*(?:\*{3}[ \t]*END OF (?:THE|THIS) PROJECT GUTENBERG E(?:BOOK|TEXT)"
    r"|(?:\*+[ \t]*)?END OF (?:THE )?PROJECT GUTENBERG(?:'S|’S| EBOOK| ETEXT)"
    r"|\*{3}[ \t]*START: FULL LICENSE)",
    re.IGNORECASE | re.MULTILINE,
)
_TITLE = re.compile(r"^Title:[ \t]*(.+(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_CREDITS = re.compile(
    r"\A\s*(?:(?:Produced|E-?text prepared|Transcribed|This e-?text was|HTML version|Updated edit)"
    r"[^\n]*(?:\n[^\n]+)*\n\s*\n\s*)+",
    re.IGNORECASE,
)
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\[\]]{0,500})?\]", re.IGNORECASE)
_ITALICS = re.compile(r"(?<![^\W_])_([^_\n]+(?:\n[^_\n]+)*)_(?![^\W_])")


def without_gutenberg(text: str) -> tuple[str, str]:
    """The book without Project Gutenberg's header and licence, and its title; ("" if unknown).

    A text without these marks comes back as it was.
    """
    if "gutenberg" not in text.lower():
        return text, ""
    start = _START.search(text[:100_000])
    end = _END.search(text, start.end() if start else 0)
    if start is None and end is None:
        return text, ""
    header = text[: start.start()] if start else text[:2000]
    title = _TITLE.search(header)
    body = text[start.end() if start else 0 : end.start() if end else len(text)]
    body = _CREDITS.sub("", body)
    body = _ITALICS.sub(r"\1", _ILLUSTRATION.sub("", body))
    return body, " ".join(title[1].split()) if title else ""


def to_paragraphs(text: str) -> str:
    """Text whose paragraphs are one line each, divided by a blank line."""
    if "\n" not in text.strip("\n"):
        return " ".join(text.split())
    lines = [line.expandtabs(4).rstrip() for line in text.split("\n")]
    width = _wrapping_width(lines)
    if not width:
        return "\n\n".join(filter(None, (" ".join(line.split()) for line in lines)))
    words = {word for line in lines for word in _WORD.findall(line)} if "-\n" in text else set()
    found, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            found += [_join(part, words) for part in _divide(block, width)]
            block = []
    return "\n\n".join(filter(None, found))


def _wrapping_width(lines: list[str]) -> int:
    """The width at which lines are wrapped, in characters; 0 if they are not."""
    lengths = sorted(len(line) for line in lines if line)
    if not lengths:
        return 0
    width = lengths[int(0.98 * (len(lengths) - 1))]
    if width > _WIDEST or width < 10:
        return 0
    pairs = full = 0
    for line, following in itertools.pairwise(lines):
        if line and following:
            pairs += 1
            full += len(line) + _first_word(following) > _FULL * width
    return width if pairs and full >= _WRAPPED * pairs else 0


def _first_word(line: str) -> int:
    """Characters that a line's first word needs on the line before."""
    line = line.lstrip()
    if _CJK.match(line):
        return 1
    return 1 + len(line.split(" ", 1)[0])


def _divide(block: list[str], width: int) -> list[list[str]]:
    """The paragraphs of lines without a blank one between them."""
    parts: list[list[str]] = [[]]
    indents = [len(line) - len(line.lstrip()) for line in block]
    for number, line in enumerate(block):
        before = block[number - 1]
        if number and (
            (indents[number] > indents[number - 1] and indents[number] <= 8)
            or (
                len(block) >= _LONG_BLOCK
                and len(before) < 0.75 * width
                and _SENTENCE_END.search(before)
            )
        ):
            parts.append([])
        parts[-1].append(line)
    return parts


def _join(lines: list[str], words: set[str]) -> str:
    """The lines of a paragraph as one; `words` are those of the text, to know hyphens by."""
    text = ""
    for line in lines:
        line = line.strip()
        if not text:
            text = line
        elif text.endswith(("--", "—", "\u00ad")) or (_CJK.match(text[-1]) and _CJK.match(line)):
            text = text.removesuffix("\u00ad") + line
        elif text[-1] == "-" and text[-2:-1].isalpha() and line[0].isalpha():
            first = _WORD.match(line)
            last = _WORD.search(text[-40:-1].rpartition(" ")[2])
            together = last[0] + first[0] if first and last else ""
            text = (text[:-1] if together in words else text) + line
        else:
            text += " " + line
    return " ".join(text.split())
