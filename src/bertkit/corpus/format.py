"""The corpus on disk, format version 1, and its memory-mapped reader.

    CORPUS/manifest.json                    what is here: counts, sizes, checksums (readable)
    CORPUS/vocab.txt, tokenizer*.json ...   the tokenizer that made the ids
    CORPUS/prepare.yaml                     the configuration that made the corpus
    CORPUS/report.html                      counts and distributions, for people
    CORPUS/shards/00000.train.tokens        ids of all sentences end to end, u1, u2 or u4
    CORPUS/shards/00000.train.sentences     u4 [sentences + 1], where each starts in .tokens
    CORPUS/shards/00000.train.documents     u4 [documents + 1], where each starts in .sentences
    CORPUS/shards/00000.train.names         identities, a JSON string a line
    CORPUS/shards/00000.train.words         only where the manifest names it: a bit a token

All numbers are little-endian, all offsets count from the shard's start. A split ("train", "dev")
has files of its own in each shard where it has documents, so it is contiguous; its sentences and
documents are numbered through all shards. Every sentence has a token, every document a sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import UserError
from bertkit.files import sha256
from bertkit.text.tokenizer import Tokenizer
from bertkit.text.wordpiece import PREFIX

FORMAT = "bertkit corpus"
VERSION = 1
MANIFEST = "manifest.json"
PARTS = ("tokens", "sentences", "documents", "names")
WORDS = "words"
OFFSET = np.dtype("<u4")


def token_type(vocabulary_size: int) -> np.dtype:
    """The smallest unsigned integer that holds every id of a vocabulary."""
    for code in ("<u1", "<u2"):
        if vocabulary_size <= np.iinfo(code).max + 1:
            return np.dtype(code)
    return np.dtype("<u4")


def shard_file(number: int, split: str, part: str) -> str:
    """The path of a shard's file within the corpus."""
    return f"shards/{number:05d}.{split}.{part}"


def vocabulary_facts(tokenizer: Tokenizer) -> dict[str, Any]:
    """What the manifest says of the tokenizer, SHA-256 of vocab.txt among it."""
    entries = "".join(f"{entry}\n" for entry in tokenizer.vocabulary)
    return {
        "size": len(tokenizer),
        "sha256": hashlib.sha256(entries.encode()).hexdigest(),
        "lower_case": tokenizer.lower_case,
        "word_limit": tokenizer.word_limit,
        "special_tokens": tokenizer.special_tokens,
    }


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus; open it with `Corpus.open`.

    Attributes:
        path: its folder.
        manifest: the content of manifest.json.
        splits: "train", and "dev" where documents were held out.
    """

    path: Path
    manifest: dict[str, Any]
    splits: dict[str, CorpusSplit]

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """Opens a corpus and checks that each file is there with its size.

        Raises:
            UserError: `path` is no corpus, or of a version that is not known here; a file is
                missing or cut off.
        """
        place = Path(path)
        manifest = _read_manifest(place)
        try:
            for name, entry in _files(manifest):
                _check_size(place / name, entry["bytes"])
            splits = {
                name: CorpusSplit(place, name, manifest)
                for name in manifest["splits"]
                if manifest["splits"][name]["documents"]
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{place / MANIFEST} is damaged ({type(error).__name__}: {error}); "
                "run bertkit prepare again"
            ) from error
        return cls(place, manifest, splits)

    @property
    def identity(self) -> str:
        """A digest of the content: equal for two corpora exactly when all that is in them is."""
        facts = {
            "version": self.manifest["version"],
            "vocabulary": self.manifest["vocabulary"],
            "files": [
                (name, entry["sha256"])
                for name, entry in _files(self.manifest)
                if name not in self.manifest["files"]  # the tokenizer's, with the vocabulary
            ],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the ids.

        Raises:
            UserError: the vocabulary is not the one that the corpus was made with.
        """
        tokenizer = Tokenizer.load(self.path)
        facts = vocabulary_facts(tokenizer)
        # the first corpora did not say so: special tokens in their text are text
        written = {"special_tokens": False} | self.manifest["vocabulary"]
        changed = [name for name in facts if facts[name] != written[name]]
        if changed:
            if {"size", "sha256"} & set(changed):
                what = f"{self.path / 'vocab.txt'} is not the vocabulary"
            else:
                what = f"{self.path / 'tokenizer_config.json'} has not the {changed[0]}"
            raise UserError(
                f"{what} that this corpus was made with; put it back, or run bertkit prepare again"
            )
        return tokenizer

    def verify(self) -> None:
        """Reads every file and compares its checksum.

        Raises:
            UserError: naming the damaged files.
        """
        damaged = [
            name
            for name, entry in _files(self.manifest)
            if sha256(self.path / name) != entry["sha256"]
        ]
        if damaged:
            more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
            raise UserError(
                f"{', '.join(str(self.path / name) for name in damaged[:3])}{more}: damaged, the "
                "checksum is not the manifest's; copy the corpus again or run bertkit prepare again"
            )


class CorpusSplit:
    """The documents of one split, numbered through all shards. Pickled by its path.

    Attributes:
        name: "train" or "dev".
        tokens, sentences, documents: how many there are.
    """

    def __init__(self, path: Path, name: str, manifest: dict[str, Any]) -> None:
        self.path, self.name = path, name
        counts = manifest["splits"][name]
        self.tokens: int = counts["tokens"]
        self.sentences: int = counts["sentences"]
        self.documents: int = counts["documents"]
        self._shards: list[_Shard] = []
        ids = np.dtype(manifest["token_type"])
        for number, shard in enumerate(manifest["shards"]):
            if entry := shard["splits"].get(name):
                self._shards.append(_Shard.map(path, number, name, entry, ids))
        # sentences and documents before each shard, and in all
        self._first_sentence = _running_sum([len(shard.sentences) - 1 for shard in self._shards])
        self._first_document = _running_sum([len(shard.documents) - 1 for shard in self._shards])
        if (self._first_sentence[-1], self._first_document[-1]) != (self.sentences, self.documents):
            raise ValueError(f"the counts of {name} are not the sums of its shards")

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_split, (self.path, self.name)

    @cached_property
    def sentence_lengths(self) -> np.ndarray:
        """[sentences] tokens of each sentence, uint16."""
        lengths = np.empty(self.sentences, dtype=np.uint16)
        for first, shard in zip(self._first_sentence, self._shards, strict=False):
            inside = np.diff(shard.sentences)
            lengths[first : first + len(inside)] = inside
        return lengths

    @cached_property
    def document_bounds(self) -> np.ndarray:
        """[documents + 1] int64: document d is the sentences bounds[d]:bounds[d + 1]."""
        bounds = np.empty(self.documents + 1, dtype=np.int64)
        for number, shard in enumerate(self._shards):
            first = self._first_document[number]
            inside = shard.documents.astype(np.int64) + self._first_sentence[number]
            bounds[first : first + len(inside)] = inside
        return bounds

    def read(self, first: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of runs of sentences, end to end.

        Args:
            first: [runs] the first sentence of each run.
            count: [runs] how many sentences it has; a run stays within one document.

        Returns:
            ids, int32 [tokens of all runs]; lengths, int64 [runs], the tokens of each run.

        Raises:
            IndexError: a run is not inside the split, or leaves its shard.
        """
        if not len(first):
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        parts = [shard.tokens[start:stop] for shard, start, stop in self._runs(first, count)]
        lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        return np.concatenate(parts, dtype=np.int32, casting="unsafe"), lengths

    @property
    def has_words(self) -> bool:
        """Whether `word_starts` can tell the words of a language without spaces."""
        return all(shard.words is not None for shard in self._shards)

    def word_starts(self, first: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Whether a word starts at each token that `read(first, count)` gives.

        Returns:
            bool [tokens of all runs].

        Raises:
            UserError: the corpus was prepared without --words.
            IndexError: as `read`.
        """
        if not self.has_words:
            raise UserError(f"{self.path} has no word starts; prepare it with --words to have them")
        parts = [np.empty(0, dtype=bool)]
        for shard, start, stop in self._runs(first, count):
            assert shard.words is not None
            bits = np.unpackbits(shard.words[start // 8 : -(-stop // 8)], bitorder="little")
            parts.append(bits[start % 8 : start % 8 + stop - start].view(bool))
        return np.concatenate(parts)

    def _runs(self, first: np.ndarray, count: np.ndarray) -> Iterator[tuple[_Shard, int, int]]:
        """The shard of each run of sentences, its first token there, and one past its last."""
        first, count = np.asarray(first, dtype=np.int64), np.asarray(count, dtype=np.int64)
        if not len(first):
            return
        numbers = np.searchsorted(self._first_sentence, first, side="right") - 1
        if first.min() < 0 or first.max() >= self.sentences or count.min() < 0:
            raise IndexError(f"sentences outside of the {self.sentences} of split {self.name}")
        begin = first - self._first_sentence[numbers]
        for number, start, stop in zip(
            numbers.tolist(), begin.tolist(), (begin + count).tolist(), strict=True
        ):
            shard = self._shards[number]
            yield shard, int(shard.sentences[start]), int(shard.sentences[stop])

    def document_id(self, document: int) -> str:
        """The readable identity of a document of this split."""
        if not 0 <= document < self.documents:
            raise IndexError(f"document {document} of the {self.documents} of split {self.name}")
        number = int(np.searchsorted(self._first_document, document, side="right")) - 1
        return self._shards[number].name(document - int(self._first_document[number]))

    def document_ids(self) -> Iterator[str]:
        """The identities of all documents of this split, in order."""
        for shard in self._shards:
            with open(shard.names, encoding="utf-8", newline="\n") as lines:
                yield from map(json.loads, lines)

    def decode(self, first: int, count: int = 1, words: bool = False) -> list[str]:
        """Sentences as text, for people: WordPieces joined, words apart by a space.

        What tokenization removed (case and accents of an uncased vocabulary, spaces, unknown
        words) does not come back.

        Args:
            first, count: which sentences.
            words: put the spaces where `word_starts` has words, for languages without spaces.
        """
        tokenizer = Corpus.open(self.path).tokenizer()
        runs = np.arange(first, first + count)
        ids, lengths = self.read(runs, np.ones_like(runs))
        entries = [tokenizer.vocabulary[number] for number in ids.tolist()]
        inside = [entry.startswith(PREFIX) for entry in entries]
        if words:
            inside = (~self.word_starts(runs, np.ones_like(runs))).tolist()
        pieces = [
            entry.removeprefix(PREFIX) if joined else f" {entry}"
            for entry, joined in zip(entries, inside, strict=True)
        ]
        ends = np.cumsum(lengths).tolist()
        return [
            "".join(pieces[end - length : end]).strip(" ")
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class _Shard:
    """The mapped files of one shard and split."""

    tokens: np.ndarray  # [tokens]
    sentences: np.ndarray  # [sentences + 1]
    documents: np.ndarray  # [documents + 1]
    words: np.ndarray | None  # [tokens / 8], the bit of the first token is the lowest
    names: Path

    @classmethod
    def map(
        cls, path: Path, number: int, split: str, entry: dict[str, Any], ids: np.dtype
    ) -> _Shard:
        counts = {
            "tokens": (ids, entry["tokens"]),
            "sentences": (OFFSET, entry["sentences"] + 1),
            "documents": (OFFSET, entry["documents"] + 1),
        }
        if WORDS in entry["files"]:
            counts[WORDS] = (np.dtype(np.uint8), -(-entry["tokens"] // 8))
        arrays: dict[str, Any] = {WORDS: None}
        for part, (kind, count) in counts.items():
            if entry["files"][part]["bytes"] != kind.itemsize * count:
                raise ValueError(f"{shard_file(number, split, part)} does not hold {count} numbers")
            file = path / shard_file(number, split, part)
            # as a plain array, which slices faster than a memmap
            arrays[part] = np.memmap(file, dtype=kind, mode="r", shape=(count,)).view(np.ndarray)
        return cls(**arrays, names=path / shard_file(number, split, "names"))

    @cached_property
    def _name_starts(self) -> np.ndarray:
        """[documents + 1] where each line of the names starts."""
        content = np.fromfile(self.names, dtype=np.uint8)
        return np.concatenate([[0], np.flatnonzero(content == ord("\n")) + 1])

    def name(self, document: int) -> str:
        start, stop = self._name_starts[document : document + 2].tolist()
        with open(self.names, "rb") as file:
            file.seek(start)
            name: str = json.loads(file.read(stop - start))
        return name


def _open_split(path: Path, name: str) -> CorpusSplit:
    return Corpus.open(path).splits[name]


def _running_sum(counts: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _files(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every file that the manifest vouches for: its path in the corpus, and its entry."""
    yield from manifest["files"].items()
    for number, shard in enumerate(manifest["shards"]):
        for split, entry in shard["splits"].items():
            for part, file in entry["files"].items():
                yield shard_file(number, split, part), file


def _read_manifest(place: Path) -> dict[str, Any]:
    path = place / MANIFEST
    if not place.exists():
        raise UserError(f"there is no corpus {place}; make one with bertkit prepare")
    if not path.is_file():
        raise UserError(
            f"{place} is not a corpus: it has no {MANIFEST}; make one with bertkit prepare"
        )
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); run bertkit prepare again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{path} is not a corpus' manifest; make a corpus with bertkit prepare")
    if manifest.get("version") != VERSION:
        raise UserError(
            f"{place} has corpus format version {manifest.get('version')}, and this bertkit reads "
            f"version {VERSION}; use the bertkit {manifest.get('bertkit')} that made it, or run "
            "bertkit prepare again"
        )
    return manifest


def _check_size(path: Path, expected: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing; copy the corpus again or run bertkit prepare again"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if size != expected:
        raise UserError(
            f"{path} has {size} bytes where {expected} belong; copy the corpus again or run "
            "bertkit prepare again"
        )
