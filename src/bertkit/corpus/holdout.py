"""Which documents are held out: a function of what a document is, never of its place or number.

A document's key (`bertkit.text.holdout`) is a hash of the seed and of its identity where the
source gave one (JSONL "id"), else of its text. So the split stays when inputs come in another
order or number, and documents that are the same are on the same side.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np

from bertkit.errors import UserError
from bertkit.text.documents import Document

FEW_DOCUMENTS = 10
"""From so many documents on, two at least are held out, for a random next sentence comes from
another document of the same split. From two on, one is."""


def identity_hash(identity: str) -> int:
    """64 bits of an identity."""
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "little")


def source_name(document: Document) -> str:
    """The file that a document is from, where its identity names a place: "news.txt:1042"."""
    name, colon, line = document.id.rpartition(":")
    return name if colon and line.isdecimal() and not document.named else document.id


@dataclass(frozen=True)
class Holdout:
    """The decision for all documents: held out are keys up to `limit`, and those in `keys`."""

    limit: int
    keys: frozenset[int]
    documents: int

    def holds_out(self, key: int) -> bool:
        return key <= self.limit or key in self.keys


def choose_share(keys: array[int], share: float) -> Holdout:
    """Holds out the documents whose key is in the lowest `share` of all possible keys.

    Args:
        keys: [documents] of `split_key`.
        share: 0 holds out nothing. Of few documents, those with the lowest keys are taken to
            reach the least number; but never all documents.
    """
    nothing = Holdout(-1, frozenset(), 0)
    if not share or len(keys) < 2:
        return nothing
    ordered = np.sort(np.frombuffer(keys, dtype=np.uint64))
    least = 1 if len(ordered) < FEW_DOCUMENTS else 2
    limit = max(int(share * 2**64) - 1, int(ordered[least - 1]))
    if limit >= int(ordered[-1]):  # all documents are alike, or the share is near 1
        smaller = ordered[ordered < ordered[-1]]
        if not len(smaller):
            return nothing
        limit = int(smaller[-1])
    return Holdout(limit, frozenset(), int(np.searchsorted(ordered, np.uint64(limit), "right")))


def choose_named(keys: array[int], named: dict[str, set[int]]) -> Holdout:
    """Holds out named documents, and any that are the same as one of them.

    Args:
        keys: [documents] of `split_key`.
        named: each wanted name with the keys of the documents that have it.

    Raises:
        UserError: a name is nobody's, or all documents are named.
    """
    missing = [name for name, found in named.items() if not found]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            f"no document or file is named {', '.join(map(repr, missing[:3]))}{more}; "
            "see held_out_documents"
        )
    held = frozenset[int]().union(*named.values())
    count = sum(key in held for key in keys)
    if count == len(keys):
        raise UserError("all documents are held out, and none is left to train on; name fewer")
    return Holdout(-1, held, count)
