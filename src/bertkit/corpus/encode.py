"""Documents in, token ids and offsets out: what a worker process does with a chunk of documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np

from bertkit.corpus.format import token_type
from bertkit.text.sentences import split_sentences
from bertkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Item:
    """A document on its way: its identity, its split and its text."""

    id: str
    split: str
    text: str


@dataclass
class Encoded:
    """The documents of one split, in order, empty ones left out.

    Attributes:
        ids: the tokens of all sentences, as bytes of the corpus' token type.
        sentence_lengths: [sentences] tokens of each sentence.
        document_lengths: [documents] sentences of each document.
        names: the identities, a JSON string a line.
        unknown: how many tokens are [UNK].
        empty: documents that have no token at all and were left out.
    """

    ids: bytes = b""
    sentence_lengths: list[int] = field(default_factory=list)
    document_lengths: list[int] = field(default_factory=list)
    names: bytes = b""
    unknown: int = 0
    empty: int = 0


def encode(items: list[Item], tokenizer: Tokenizer, sentences: str) -> dict[str, Encoded]:
    """Splits and tokenizes documents; the result by split.

    Args:
        items: the documents.
        tokenizer: makes the ids.
        sentences: the mode of `split_sentences`.
    """
    encoded: dict[str, Encoded] = {}
    ids: dict[str, list[int]] = {}
    names: dict[str, list[str]] = {}
    token_ids = tokenizer.token_ids
    for item in items:
        part = encoded.setdefault(item.split, Encoded())
        all_ids = ids.setdefault(item.split, [])
        lengths = part.sentence_lengths
        before = len(lengths)
        for sentence in split_sentences(item.text, sentences):
            if numbers := token_ids(sentence):
                all_ids += numbers
                lengths.append(len(numbers))
        if len(lengths) == before:
            part.empty += 1
            continue
        part.document_lengths.append(len(lengths) - before)
        names.setdefault(item.split, []).append(json.dumps(item.id, ensure_ascii=False) + "\n")
    kind = token_type(len(tokenizer))
    for split, part in encoded.items():
        part.ids = np.array(ids[split], dtype=kind).tobytes()
        part.unknown = ids[split].count(tokenizer.unk_id)
        part.names = "".join(names.get(split, [])).encode("utf-8")
    return encoded
