"""Writes the shards of a corpus, file by file, with sizes and checksums for the manifest."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bertkit.corpus.encode import Encoded
from bertkit.corpus.format import OFFSET, PARTS, WORDS, shard_file
from bertkit.errors import UserError


class ShardWriter:
    """One shard: takes encoded documents in order; `close` returns its entry in the manifest.

    Args:
        corpus: the folder that has `shards`.
        number: of the shard.
        words: write the starts of words too.
    """

    def __init__(self, corpus: Path, number: int, words: bool) -> None:
        self.corpus, self.number, self.words = corpus, number, words
        self._splits: dict[str, _SplitWriter] = {}

    def write(self, encoded: dict[str, Encoded]) -> None:
        for split, part in encoded.items():
            if split not in self._splits:
                self._splits[split] = _SplitWriter(self.corpus, self.number, split, self.words)
            self._splits[split].write(part)

    def close(self) -> dict[str, Any]:
        """Ends the files, on the disk too; a split without a token has none."""
        entries = {name: self._splits[name].close() for name in sorted(self._splits)}
        return {
            "empty": sum(writer.empty for writer in self._splits.values()),
            "splits": {name: entry for name, entry in entries.items() if entry is not None},
        }

    def abandon(self) -> None:
        """Closes the files; harmless after `close`."""
        for writer in self._splits.values():
            writer.abandon()


class _SplitWriter:
    """The files of one shard and split. The last document stays open, for pieces may follow."""

    def __init__(self, corpus: Path, number: int, split: str, words: bool) -> None:
        parts = (*PARTS, WORDS) if words else PARTS
        self._names = {part: shard_file(number, split, part) for part in parts}
        self._files = {part: _File(corpus / name) for part, name in self._names.items()}
        self._tokens = self._sentences = self._documents = self._unknown = 0
        self._open = 0, b""  # sentences and name of the last document
        self._bits = np.empty(0, dtype=np.uint8)  # of the last, unfinished byte
        self.empty = -1  # for what is open before the first document
        self._files["sentences"].write(np.zeros(1, OFFSET).tobytes())
        self._files["documents"].write(np.zeros(1, OFFSET).tobytes())

    def write(self, part: Encoded) -> None:
        counts, names = part.document_lengths.astype(np.int64), part.names
        if part.goes_on:
            counts[0] += self._open[0]
        else:
            counts, names = np.concatenate([[self._open[0]], counts]), [self._open[1], *names]
        self._end_documents(counts[:-1], names[:-1])
        self._open = int(counts[-1]), names[-1]
        ends = self._tokens + np.cumsum(part.sentence_lengths, dtype=np.int64)
        if len(ends) and ends[-1] > np.iinfo(OFFSET).max:
            raise UserError(
                f"{self._files['tokens'].path} has more tokens than a shard can count; lower "
                "--shard-bytes"
            )
        self._files["tokens"].write(part.ids)
        self._files["sentences"].write(ends.astype(OFFSET).tobytes())
        if WORDS in self._files:
            bits = np.concatenate([self._bits, part.words])
            whole = len(bits) // 8 * 8
            self._files[WORDS].write(np.packbits(bits[:whole], bitorder="little").tobytes())
            self._bits = bits[whole:]
        self._tokens += int(part.sentence_lengths.sum(dtype=np.int64))
        self._unknown += part.unknown

    def _end_documents(self, counts: np.ndarray, names: list[bytes]) -> None:
        """Writes documents of so many sentences, the empty ones left out."""
        full = counts > 0
        ends = self._sentences + np.cumsum(counts[full])
        self._files["documents"].write(ends.astype(OFFSET).tobytes())
        self._files["names"].write(
            b"".join(name for name, kept in zip(names, full.tolist(), strict=True) if kept)
        )
        self._sentences += int(counts.sum())
        self._documents += len(ends)
        self.empty += len(counts) - len(ends)

    def close(self) -> dict[str, Any] | None:
        self._end_documents(np.array([self._open[0]]), [self._open[1]])
        if WORDS in self._files:
            self._files[WORDS].write(np.packbits(self._bits, bitorder="little").tobytes())
        files = {
            part: {"file": self._names[part], **file.close()} for part, file in self._files.items()
        }
        if not self._documents:
            for file in self._files.values():
                file.path.unlink()
            return None
        return {
            "documents": self._documents,
            "sentences": self._sentences,
            "tokens": self._tokens,
            "unknown": self._unknown,
            "files": files,
        }

    def abandon(self) -> None:
        for file in self._files.values():
            file.stream.close()


class _File:
    """A file that is hashed while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stream: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by its writer
        self.bytes, self.hash = 0, hashlib.sha256()

    def write(self, content: bytes) -> None:
        self.stream.write(content)
        self.hash.update(content)
        self.bytes += len(content)

    def close(self) -> dict[str, Any]:
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        return {"bytes": self.bytes, "sha256": self.hash.hexdigest()}
