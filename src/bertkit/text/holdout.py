"""Which documents are held out: a function of what a document is, never of its place or number.

A document's key is a hash of the seed and of its identity where the source gave one (JSONL "id"),
else of its text. Held out are the lowest keys. So the choice stays when inputs come in another
order, and documents that are the same are on the same side. `bertkit vocab` and `bertkit prepare`
share the keys: with one seed, the smaller share of the two lies inside the larger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bertkit.text.documents import Document

FEW_DOCUMENTS = 10
"""Of fewer documents none is held out for measuring a vocabulary: each is needed to learn from."""


def keyed_hash(content: bytes, seed: int) -> bytes:
    """8 bytes that depend on the seed."""
    return hashlib.blake2b(content, digest_size=8, key=str(seed).encode()).digest()


def split_key(document: Document, seed: int, text_hash: bytes | None = None) -> int:
    """64 bits that decide on which side a document is.

    `text_hash` is the `keyed_hash` of its text, where that is known already.
    """
    if document.named:
        text_hash = keyed_hash(document.id.encode(), seed)
    elif text_hash is None:
        text_hash = keyed_hash(document.text.encode(), seed)
    return int.from_bytes(text_hash, "little")


@dataclass
class HoldoutStream:
    """Holds out a share of a stream of documents, in one reading.

    Held out are the documents whose key is in the lowest `share` of all possible keys; where there
    is none, the one with the lowest key of all (its equals too). It waits in memory for the end.

    Attributes:
        share: from 0, which holds out nothing, to below 1.
        seed: of the keys.
        documents, held_out: counts so far.
        valid: known at the end: whether what was held out may stay so. If not, for there are fewer
            than `FEW_DOCUMENTS` or nothing else is left, it belongs to the rest.
    """

    share: float
    seed: int
    documents: int = 0
    held_out: int = 0

    @property
    def valid(self) -> bool:
        return 0 < self.held_out < self.documents and self.documents >= FEW_DOCUMENTS

    def split(self, documents: Iterable[Document]) -> Iterator[tuple[bool, str]]:
        """Each document's text with whether it is held out; not in the order of documents."""
        limit = int(self.share * 2**64)
        lowest = 2**64
        waiting: list[str] = []  # the texts of the lowest key, while none is under the limit
        for document in documents:
            self.documents += 1
            key = split_key(document, self.seed) if self.share else 2**64
            if key < limit:
                self.held_out += 1
                yield True, document.text
            elif self.held_out or key > lowest or not self.share:
                yield False, document.text
            elif key == lowest:  # the same text is not kept twice
                waiting.append(waiting[0] if waiting[0] == document.text else document.text)
            else:
                yield from ((False, text) for text in waiting)
                lowest, waiting = key, [document.text]
            if self.held_out:
                yield from ((False, text) for text in waiting)
                waiting = []
        self.held_out += len(waiting)
        yield from ((True, text) for text in waiting)
