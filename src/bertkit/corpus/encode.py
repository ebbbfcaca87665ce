"""Documents in, token ids and offsets out: what a worker process does with a chunk of documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bertkit.corpus.format import OFFSET, token_type
from bertkit.text.sentences import split_sentences
from bertkit.text.tokenizer import Tokenizer

PIECE_CHARACTERS = 1 << 20
"""A longer document is worked on in pieces, for a sentence, an id and a length each take memory."""

_BREAKS = (re.compile(r"[.!?…]\s|[。！？]"), re.compile(r"\s"))
_SIGHT = 4096  # characters before the end of a piece in which a sentence or a word must end


@dataclass(frozen=True, slots=True)
class Item:
    """A document on its way, or a piece of one: its identity, its split and its text.

    `goes_on` tells that it is a further piece of the document before it.
    """

    id: str
    split: str
    text: str
    goes_on: bool = False


@dataclass
class Encoded:
    """The documents of one split, in order, those without a token too.

    Attributes:
        ids: the tokens of all sentences, as bytes of the corpus' token type.
        sentence_lengths: uint32 [sentences] tokens of each sentence.
        document_lengths: uint32 [documents] sentences of each document.
        names: [documents] the identities, each as a line of JSON.
        goes_on: the first document is a further piece of the last one before.
        unknown: how many tokens are [UNK].
        words: uint8 [tokens] 1 where a word starts; empty when words are not looked for.
    """

    ids: bytes
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    names: list[bytes]
    goes_on: bool
    unknown: int
    words: np.ndarray


@dataclass
class _Growing:
    """What `Encoded` is made from."""

    goes_on: bool
    ids: list[int] = field(default_factory=list)
    sentence_lengths: list[int] = field(default_factory=list)
    document_lengths: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    words: list[bool] = field(default_factory=list)


def encode(
    items: list[Item], tokenizer: Tokenizer, sentences: str, words: bool = False
) -> dict[str, Encoded]:
    """Splits and tokenizes documents; the result by split.

    Args:
        items: the documents; a further piece of one may only be the first.
        tokenizer: makes the ids.
        sentences: the mode of `split_sentences`.
        words: look for the starts of words (words.py).
    """
    if words:
        from bertkit.corpus.words import marked_ids
    growing: dict[str, _Growing] = {}
    token_ids = tokenizer.token_ids
    for item in items:
        part = growing.setdefault(item.split, _Growing(item.goes_on))
        all_ids, lengths = part.ids, part.sentence_lengths
        before = len(lengths)
        for sentence in split_sentences(item.text, sentences):
            if words:
                numbers, starts = marked_ids(sentence, tokenizer)
                part.words += starts
            else:
                numbers = token_ids(sentence)
            if numbers:
                all_ids += numbers
                lengths.append(len(numbers))
        part.document_lengths.append(len(lengths) - before)
        part.names.append((json.dumps(item.id, ensure_ascii=False) + "\n").encode("utf-8"))
    kind = token_type(len(tokenizer))
    encoded = {}
    for split, part in growing.items():
        ids = np.array(part.ids, dtype=kind)
        encoded[split] = Encoded(
            ids=ids.tobytes(),
            sentence_lengths=np.array(part.sentence_lengths, dtype=OFFSET),
            document_lengths=np.array(part.document_lengths, dtype=OFFSET),
            names=part.names,
            goes_on=part.goes_on,
            unknown=int(np.count_nonzero(ids == tokenizer.unk_id)),
            words=np.array(part.words, dtype=np.uint8),
        )
    return encoded


def pieces(text: str, lines: bool = False) -> Iterator[str]:
    """A document's text in pieces of at most PIECE_CHARACTERS.

    A piece ends at the last blank line in its second half; without one behind the last sentence
    in sight, or at white space. So in text with paragraphs the sentences are those of the whole.

    Args:
        lines: sentences are lines, so pieces end where a line does, however long it is.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        last = start + PIECE_CHARACTERS
        if lines:
            end = text.rfind("\n", start, last) + 1 or text.find("\n", last) + 1 or len(text)
        else:
            end = _last_break(text, start + PIECE_CHARACTERS // 2, last)
        yield text[start:end]
        start = end
    if start < len(text) or not text:
        yield text[start:]


def _last_break(text: str, first: int, last: int) -> int:
    """The best place to cut text[first:last], one past the character it is cut behind."""
    blank = text.rfind("\n\n", first, last)
    if blank >= 0:
        return blank + 2
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(text, max(first, last - _SIGHT), last)]
        if ends:
            return ends[-1]
    return last
