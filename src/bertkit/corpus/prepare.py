"""`bertkit prepare`: documents and a vocabulary in, a corpus on disk out (format.py).

The documents are read twice. The first reading only hashes them: it finds every mistake in the
input before hours of work, and decides which documents are held out (holdout.py). The second one
streams them to worker processes (bertkit.workers) and writes what comes back, in order (write.py).

A shard is a fixed run of documents, by bytes of text in the order of paths, and a document's
tokens depend on nothing else. So the bytes are the same for any number of workers.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import bertkit
from bertkit import config as configuration
from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.encode import Encoded, Item, encode
from bertkit.corpus.format import FORMAT, MANIFEST, VERSION, token_type, vocabulary_digest
from bertkit.corpus.holdout import (
    Holdout,
    choose_named,
    choose_share,
    identity_hash,
    source_name,
    split_key,
)
from bertkit.corpus.write import ShardWriter
from bertkit.errors import Interrupted, UserError
from bertkit.files import sha256, writing
from bertkit.progress import Progress, say
from bertkit.text.documents import Document, read_documents
from bertkit.text.tokenizer import Tokenizer
from bertkit.workers import parallel_map, processors

CHUNK_BYTES = 1 << 18
"""Text that a worker gets at once (one document more than fits)."""

LONGEST_DOCUMENT = 1 << 30
"""Bytes of the longest document, which must fit in memory and in a shard's 32-bit offsets."""

FILES = {
    MANIFEST,
    "prepare.yaml",
    "shards",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
}
"""What a corpus' folder holds."""

MANY_UNKNOWN = 0.05
"""Share of [UNK] from which the vocabulary hardly fits the text."""


@dataclass
class SplitCounts:
    """What one split holds."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown: int = 0


@dataclass
class PrepareResult:
    """What `prepare` made.

    Attributes:
        output: the corpus' folder.
        splits: counts of "train" and, where documents were held out, "dev".
        vocabulary_size, lower_case: of the tokenizer.
        shards: how many there are.
        empty: documents without any token, left out.
        seconds: how long it took.
    """

    output: str
    splits: dict[str, SplitCounts]
    vocabulary_size: int
    lower_case: bool
    shards: int
    empty: int
    seconds: float

    def __str__(self) -> str:
        casing = "lower-cased" if self.lower_case else "cased"
        rows = [["", "documents", "sentences", "tokens", "tokens/sentence", "unknown"]]
        for name, counts in self.splits.items():
            mean = counts.tokens / counts.sentences
            unknown = f"{100 * counts.unknown / counts.tokens:.2f} %"
            numbers = [f"{n:,}" for n in (counts.documents, counts.sentences, counts.tokens)]
            rows.append([name, *numbers, f"{mean:.1f}", unknown])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{self.output}: {self.shards} {'shard' if self.shards == 1 else 'shards'}, "
            f"vocabulary of {self.vocabulary_size} ({casing}), {self.seconds:.1f} s"
        ]
        for name, *cells in rows:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *padded]))
        return "\n".join(lines)


def prepare(config: PrepareConfig) -> PrepareResult:
    """Makes a corpus from text. What stood at `config.output` is replaced at the end, as a whole.

    Raises:
        UserError: see `read_documents` and `Tokenizer.load`; an option out of its range; names to
            hold out that no document has; no document with a token; the disk is full.
        Interrupted: SIGTERM came; like Ctrl-C, it leaves nothing behind.
    """
    started = time.monotonic()
    _check(config)
    tokenizer = Tokenizer.load(
        config.vocab, config.lower_case, config.word_limit, config.special_tokens
    )
    with _sigterm_interrupts(), writing(config.output) as folder:
        (folder / "shards").mkdir(parents=True)  # first, for a missing permission shows here
        scan = _scan(config)
        holdout = _choose(config, scan)
        written = _write_shards(config, tokenizer, scan, holdout, folder)
        if "train" not in written.splits:
            raise UserError(
                "no document left to train on has any token; check the inputs"
                + (" and --held-out" if written.splits else "")
            )
        tokenizer.save(folder)
        configuration.save(config, folder / "prepare.yaml")
        _write_manifest(config, tokenizer, written, folder)
    for name, counts in written.splits.items():
        if counts.unknown > MANY_UNKNOWN * counts.tokens:
            share = 100 * counts.unknown / counts.tokens
            say(
                f"{share:.0f} % of the tokens of {name} are [UNK]; "
                "does the vocabulary fit the text?",
                config.quiet,
            )
    return PrepareResult(
        output=str(config.output),
        splits=written.splits,
        vocabulary_size=len(tokenizer),
        lower_case=tokenizer.lower_case,
        shards=len(written.shards),
        empty=written.empty,
        seconds=time.monotonic() - started,
    )


def _check(config: PrepareConfig) -> None:
    if not 0 <= config.held_out < 1:
        raise UserError(f"held_out is {config.held_out}; give a share from 0 to below 1")
    if config.workers is not None and config.workers < 1:
        raise UserError(f"workers is {config.workers}; give 1 or more")
    if config.shard_bytes < 1:
        raise UserError(f"shard_bytes is {config.shard_bytes}; give 1 or more")
    output = Path(config.output).resolve()
    for path in config.inputs:
        if Path(path).is_dir() and Path(path).resolve() in (output, *output.parents):
            raise UserError(
                f"the output {config.output} lies inside the input folder {path} and would be "
                "read as text the next time; choose another place with --output"
            )
    # `writing` refuses too to replace what is not its own, but only when all work is done
    if output.exists() and not output.is_dir():
        raise UserError(f"{config.output} is a file; choose another place with --output")
    others = sorted({child.name for child in output.iterdir()} - FILES) if output.exists() else []
    if others:
        raise UserError(
            f"{config.output} also holds '{others[0]}', which would be lost; choose another place "
            "with --output, or remove it"
        )


def _documents(config: PrepareConfig, quiet: bool) -> Iterator[Document]:
    return read_documents(
        config.inputs, config.documents, config.text_field, config.errors, quiet=quiet
    )


# ---- first reading ---------------------------------------------------------------------------


@dataclass
class Scan:
    """What the first reading found: [documents] hashes of splits and of identities."""

    keys: array[int] = field(default_factory=lambda: array("Q"))
    identities: array[int] = field(default_factory=lambda: array("Q"))
    named: dict[str, set[int]] = field(default_factory=dict)
    bytes: int = 0


def _scan(config: PrepareConfig) -> Scan:
    scan = Scan(named={name: set() for name in config.held_out_documents})
    with Progress("reading", unit="documents", quiet=config.quiet) as progress:
        for document in _documents(config, config.quiet):
            size = len(document.text.encode())
            if size > LONGEST_DOCUMENT:
                raise UserError(
                    f"document {document.id} has {size / 1e9:.1f} GB, more than fits in one; "
                    "divide it, with --documents blank-line for example"
                )
            key = split_key(document, config.seed)
            scan.keys.append(key)
            scan.identities.append(identity_hash(document.id))
            scan.bytes += size
            for name in {document.id, source_name(document)} & scan.named.keys():
                scan.named[name].add(key)
            progress.advance()
    return scan


def _choose(config: PrepareConfig, scan: Scan) -> Holdout:
    if scan.named:
        holdout = choose_named(scan.keys, scan.named)
    else:
        holdout = choose_share(scan.keys, config.held_out)
    left = len(scan.keys) - holdout.documents
    if config.held_out and not holdout.documents:
        say("there are not two different documents, so none is held out", config.quiet)
    if left < 2:
        say(
            "one document is left to train on, which is enough for masked LM only: the next "
            "sentence task needs two",
            config.quiet,
        )
    return holdout


# ---- second reading --------------------------------------------------------------------------


@dataclass
class Written:
    """What has been written so far."""

    splits: dict[str, SplitCounts] = field(default_factory=dict)
    shards: list[dict[str, Any]] = field(default_factory=list)
    empty: int = 0

    def count(self, encoded: dict[str, Encoded]) -> None:
        for split, part in encoded.items():
            self.empty += part.empty
            if part.document_lengths:
                counts = self.splits.setdefault(split, SplitCounts())
                counts.documents += len(part.document_lengths)
                counts.sentences += len(part.sentence_lengths)
                counts.tokens += sum(part.sentence_lengths)
                counts.unknown += part.unknown


@dataclass
class _Chunk:
    """Consecutive documents of one shard."""

    shard: int
    items: list[Item]


def _write_shards(
    config: PrepareConfig, tokenizer: Tokenizer, scan: Scan, holdout: Holdout, folder: Path
) -> Written:
    workers = min(config.workers or processors(), -(-scan.bytes // CHUNK_BYTES))
    work = partial(encode, tokenizer=tokenizer, sentences=config.sentences)
    pending: list[_Chunk] = []  # sent to the workers and not yet back, oldest first

    def texts() -> Iterator[list[Item]]:
        for chunk in _chunks(config, scan, holdout):
            pending.append(chunk)
            yield chunk.items

    written = Written()
    with (
        Progress("tokenizing", len(scan.keys), "documents", config.quiet) as progress,
        closing(parallel_map(work, texts(), workers)) as results,
    ):
        shard = ShardWriter(folder, 0)
        try:
            for encoded in results:
                chunk = pending.pop(0)
                if chunk.shard != shard.number:
                    written.shards.append(shard.close())
                    shard = ShardWriter(folder, chunk.shard)
                shard.write(encoded)
                written.count(encoded)
                progress.advance(len(chunk.items))
            written.shards.append(shard.close())
        finally:
            shard.abandon()
    written.splits = {name: written.splits[name] for name in sorted(written.splits, reverse=True)}
    return written


def _chunks(config: PrepareConfig, scan: Scan, holdout: Holdout) -> Iterator[_Chunk]:
    """The documents again, with their splits and distinct identities, cut into chunks."""
    names = _DistinctNames(scan.identities)
    chunk, chunk_bytes, shard_bytes = _Chunk(0, []), 0, 0
    number = 0
    for number, document in enumerate(_documents(config, quiet=True), start=1):
        if number > len(scan.keys):
            break
        split = "dev" if holdout.holds_out(scan.keys[number - 1]) else "train"
        chunk.items.append(Item(names.distinct(document.id), split, document.text))
        size = len(document.text.encode())
        chunk_bytes += size
        shard_bytes += size
        shard_is_full = shard_bytes >= config.shard_bytes
        if shard_is_full or chunk_bytes >= CHUNK_BYTES:
            yield chunk
            chunk, chunk_bytes = _Chunk(chunk.shard + shard_is_full, []), 0
            if shard_is_full:
                shard_bytes = 0
    if number != len(scan.keys):
        raise UserError("the inputs changed while they were read; run again")
    if chunk.items:
        yield chunk


class _DistinctNames:
    """Names the second document of an identity ID "ID#2", and so on."""

    def __init__(self, identities: array[int]) -> None:
        hashes, counts = np.unique(np.frombuffer(identities, np.uint64), return_counts=True)
        self.repeated = frozenset(hashes[counts > 1].tolist())
        self.all = hashes
        self.seen: Counter[str] = Counter()

    def distinct(self, identity: str) -> str:
        if not self.repeated or identity_hash(identity) not in self.repeated:
            return identity
        while True:
            self.seen[identity] += 1
            number = self.seen[identity]
            name = identity if number == 1 else f"{identity}#{number}"
            if number == 1 or not self._is_taken(name):
                return name

    def _is_taken(self, name: str) -> bool:
        wanted = np.uint64(identity_hash(name))
        place = int(np.searchsorted(self.all, wanted))
        return place < len(self.all) and bool(self.all[place] == wanted)


def _write_manifest(
    config: PrepareConfig, tokenizer: Tokenizer, written: Written, folder: Path
) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "bertkit": bertkit.__version__,
        "vocabulary": {
            "size": len(tokenizer),
            "sha256": vocabulary_digest(tokenizer.vocabulary),
            "lower_case": tokenizer.lower_case,
            "word_limit": tokenizer.word_limit,
            "special_tokens": tokenizer.special_tokens,
        },
        "token_type": token_type(len(tokenizer)).str,
        "sentences": config.sentences,
        "held_out": {
            "share": 0 if config.held_out_documents else config.held_out,
            "seed": config.seed,
            "named": len(config.held_out_documents),
        },
        "splits": {name: vars(counts) for name, counts in written.splits.items()},
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in ("vocab.txt", "tokenizer_config.json")
        },
        "shards": written.shards,
    }
    (folder / MANIFEST).write_text(
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Turns SIGTERM into an exception, so that it cleans up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted("stopped; nothing was written", number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
