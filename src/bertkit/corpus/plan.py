"""What there is to do: documents in, the shards that they make and their splits and names out.

The documents are read twice. The first reading (`scan`) only hashes them: it finds every mistake
in the input before hours of work, decides which documents are held out (holdout.py), and notes
for each shard a digest of its documents. The second one (`chunks`) hands them out and compares
the digests. So inputs that change are noticed, between the two readings and between an interrupted
run and its continuation, whatever their files' dates say.

In memory stay two hashes a document (16 bytes) during the first reading, one during the second.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

import numpy as np

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.encode import PIECE_CHARACTERS, Item, pieces
from bertkit.corpus.holdout import (
    Holdout,
    choose_named,
    choose_share,
    identity_hash,
    source_name,
)
from bertkit.errors import UserError
from bertkit.progress import Progress, say
from bertkit.text.documents import Document, read_documents
from bertkit.text.holdout import keyed_hash, split_key

CHUNK_BYTES = 1 << 18
"""Text that a worker gets at once (one document more than fits)."""

LONGEST_DOCUMENT = 1 << 27
"""Bytes of the longest document, which must fit in memory several times over."""


@dataclass
class ShardPlan:
    """A shard's share of the input: how much it is, and a digest of what it is."""

    documents: int = 0
    bytes: int = 0
    digest: str = ""


@dataclass
class Plan:
    """What the first reading found.

    Attributes:
        shards: in order; a shard is a run of documents.
        holdout: decides which documents are held out.
        names: makes identities distinct.
    """

    shards: list[ShardPlan]
    holdout: Holdout
    names: _DistinctNames

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)


@dataclass
class Chunk:
    """Consecutive documents of one shard.

    Attributes:
        documents: how many begin in it.
        last: the shard ends with it.
    """

    shard: int
    items: list[Item] = field(default_factory=list)
    documents: int = 0
    last: bool = False


def scan(config: PrepareConfig) -> Plan:
    """Reads the input once.

    Raises:
        UserError: see `read_documents`; a document is too long; names to hold out are nobody's.
    """
    keys, identities = array("Q"), array("Q")
    named: dict[str, set[int]] = {name: set() for name in config.held_out_documents}
    shards: list[ShardPlan] = []
    reading = _Reading(config.seed)
    with Progress("reading", unit="documents", quiet=config.quiet) as progress:
        for document in _documents(config, config.quiet):
            key, size = reading.add(document)
            if size > LONGEST_DOCUMENT:
                raise UserError(
                    f"document {document.id} has {size / 1e6:,.0f} MB, more than the "
                    f"{LONGEST_DOCUMENT / 1e6:,.0f} MB that one may have; divide it, with "
                    "--documents blank-line for example"
                )
            keys.append(key)
            identities.append(identity_hash(document.id))
            for name in {document.id, source_name(document)} & named.keys() if named else ():
                named[name].add(key)
            if reading.bytes >= config.shard_bytes:
                shards.append(reading.plan())
                reading = _Reading(config.seed)
            progress.advance()
    if reading.documents:
        shards.append(reading.plan())
    names = _DistinctNames(identities)
    del identities
    return Plan(shards, _choose(config, keys, named), names)


def chunks(config: PrepareConfig, plan: Plan, wanted: Container[int]) -> Iterator[Chunk]:
    """Reads the input again and yields the documents of the `wanted` shards.

    Raises:
        UserError: the input is not what the first reading saw.
    """
    number, reading = 0, _Reading(config.seed)
    chunk, chunk_bytes = Chunk(0), 0
    for document in _documents(config, quiet=True):
        if number == len(plan.shards):
            raise _changed()
        key, size = reading.add(document)
        name = plan.names.distinct(document.id)
        ended = reading.documents == plan.shards[number].documents
        if ended and reading.plan() != plan.shards[number]:
            raise _changed()
        if number in wanted:
            split = "dev" if plan.holdout.holds_out(key) else "train"
            chunk.documents += 1
            if len(document.text) > PIECE_CHARACTERS:
                for place, piece in enumerate(pieces(document.text, config.sentences == "line")):
                    if chunk.items:
                        yield chunk
                        chunk = Chunk(number)
                    chunk.items.append(Item(name, split, piece, goes_on=place > 0))
                chunk_bytes = CHUNK_BYTES
            else:
                chunk.items.append(Item(name, split, document.text))
                chunk_bytes += size
            if ended or chunk_bytes >= CHUNK_BYTES:
                chunk.last = ended
                yield chunk
                chunk, chunk_bytes = Chunk(number), 0
        if ended:
            number, reading = number + 1, _Reading(config.seed)
            chunk = Chunk(number)
    if number != len(plan.shards):
        raise _changed()


def _documents(config: PrepareConfig, quiet: bool) -> Iterator[Document]:
    return read_documents(
        config.inputs, config.documents, config.text_field, config.errors, quiet=quiet
    )


def _changed() -> UserError:
    return UserError("the inputs changed while they were read; run again")


class _Reading:
    """A shard of which documents are being read."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.documents = self.bytes = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, document: Document) -> tuple[int, int]:
        """Counts a document; returns its split's key and its bytes."""
        text, identity = document.text.encode(), document.id.encode()
        text_hash = keyed_hash(text, self.seed)
        head = bytes([document.named]) + len(identity).to_bytes(8, "little")
        self._hash.update(head + identity + text_hash)
        self.documents += 1
        self.bytes += len(text)
        return split_key(document, self.seed, text_hash), len(text)

    def plan(self) -> ShardPlan:
        return ShardPlan(self.documents, self.bytes, self._hash.hexdigest())


def _choose(config: PrepareConfig, keys: array[int], named: dict[str, set[int]]) -> Holdout:
    holdout = choose_named(keys, named) if named else choose_share(keys, config.held_out)
    if config.held_out and not holdout.documents:
        say("there are not two different documents, so none is held out", config.quiet)
    if len(keys) - holdout.documents < 2:
        say(
            "one document is left to train on, which is enough for masked LM only: the next "
            "sentence task needs two",
            config.quiet,
        )
    return holdout


class _DistinctNames:
    """Names the second document of an identity ID "ID#2", and so on."""

    def __init__(self, identities: array[int]) -> None:
        self.all = np.sort(np.frombuffer(identities, np.uint64))
        self.repeated = np.unique(self.all[1:][self.all[1:] == self.all[:-1]])
        self.seen = np.zeros(len(self.repeated), np.int64)

    def distinct(self, identity: str) -> str:
        if not len(self.repeated):
            return identity
        place = _find(self.repeated, identity)
        if place is None:
            return identity
        while True:
            self.seen[place] += 1
            number = int(self.seen[place])
            name = identity if number == 1 else f"{identity}#{number}"
            if number == 1 or _find(self.all, name) is None:
                return name


def _find(hashes: np.ndarray, identity: str) -> int | None:
    """The place of an identity's hash in sorted ones."""
    wanted = np.uint64(identity_hash(identity))
    place = int(np.searchsorted(hashes, wanted))
    return place if place < len(hashes) and hashes[place] == wanted else None
