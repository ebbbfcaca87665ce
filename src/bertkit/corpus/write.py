"""Writes the shards of a corpus, file by file, with sizes and checksums for the manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bertkit.corpus.encode import Encoded
from bertkit.corpus.format import OFFSET, PARTS, shard_file


class ShardWriter:
    """One shard: takes encoded documents in order; `close` returns its entry in the manifest."""

    def __init__(self, corpus: Path, number: int) -> None:
        self.corpus, self.number = corpus, number
        self._splits: dict[str, _SplitWriter] = {}

    def write(self, encoded: dict[str, Encoded]) -> None:
        for split, part in encoded.items():
            if part.document_lengths:
                if split not in self._splits:
                    self._splits[split] = _SplitWriter(self.corpus, self.number, split)
                self._splits[split].write(part)

    def close(self) -> dict[str, Any]:
        return {"splits": {name: self._splits[name].close() for name in sorted(self._splits)}}

    def abandon(self) -> None:
        """Closes the files; harmless after `close`."""
        for writer in self._splits.values():
            writer.abandon()


class _SplitWriter:
    """The files of one shard and split."""

    def __init__(self, corpus: Path, number: int, split: str) -> None:
        self._files = {part: _File(corpus / shard_file(number, split, part)) for part in PARTS}
        self._names = {part: shard_file(number, split, part) for part in PARTS}
        self._tokens = self._sentences = self._documents = 0
        self._files["sentences"].write(np.zeros(1, OFFSET).tobytes())
        self._files["documents"].write(np.zeros(1, OFFSET).tobytes())

    def write(self, part: Encoded) -> None:
        sentence_ends = self._tokens + np.cumsum(part.sentence_lengths, dtype=np.int64)
        document_ends = self._sentences + np.cumsum(part.document_lengths, dtype=np.int64)
        self._files["tokens"].write(part.ids)
        self._files["sentences"].write(sentence_ends.astype(OFFSET).tobytes())
        self._files["documents"].write(document_ends.astype(OFFSET).tobytes())
        self._files["names"].write(part.names)
        self._tokens, self._sentences = int(sentence_ends[-1]), int(document_ends[-1])
        self._documents += len(part.document_lengths)

    def close(self) -> dict[str, Any]:
        return {
            "documents": self._documents,
            "sentences": self._sentences,
            "tokens": self._tokens,
            "files": {
                part: {"file": self._names[part], **file.close()}
                for part, file in self._files.items()
            },
        }

    def abandon(self) -> None:
        for file in self._files.values():
            file.stream.close()


class _File:
    """A file that is hashed while it is written."""

    def __init__(self, path: Path) -> None:
        self.stream: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by its writer
        self.bytes, self.hash = 0, hashlib.sha256()

    def write(self, content: bytes) -> None:
        self.stream.write(content)
        self.hash.update(content)
        self.bytes += len(content)

    def close(self) -> dict[str, Any]:
        self.stream.close()
        return {"bytes": self.bytes, "sha256": self.hash.hexdigest()}
