"""`bertkit extract`: sources in, one JSONL file of documents and a report out.

This process reads the inputs (inputs.py) and hands documents to workers (convert.py) in chunks.
What comes back, in order, passes the filters that need to know the other documents (duplicates) and
is written. So memory holds a few chunks, and the bytes are the same for any number of workers.

The file takes its place when it is whole. Beside `docs.jsonl.zst` stand `docs.extract.json`, which
counts what was kept and dropped and why, and `docs.extract.yaml`, the configuration.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import bertkit
from bertkit import config as configuration
from bertkit.errors import UserError
from bertkit.extraction.config import ExtractConfig
from bertkit.extraction.convert import Converter
from bertkit.extraction.encodings import check_encoding
from bertkit.extraction.filters import NearIndex, known_languages
from bertkit.extraction.inputs import Input, find_inputs, read_input
from bertkit.extraction.records import STOPPING, Dropped, Extracted, Raw
from bertkit.files import disk_errors, writing, zstandard
from bertkit.progress import Progress, say
from bertkit.text.documents import check_output_apart, check_output_is_file
from bertkit.workers import parallel_map, processors

CHUNK_BYTES = 1 << 18
"""Text that a worker gets at once (one document more than fits)."""

EXAMPLES = 5
"""How many dropped documents the report names for each reason."""

SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
ZSTANDARD_LEVEL = 3
GZIP_LEVEL = 6


@dataclass
class InputCounts:
    """What became of one input's documents."""

    kept: int = 0
    dropped: int = 0


@dataclass
class ExtractResult:
    """What `extract` made.

    Attributes:
        output: the file of documents.
        documents, characters, paragraphs: what it holds.
        dropped: how many documents were dropped for each reason.
        unread: how many files were not read to their end, for each reason.
        mended: documents with "broken bytes" (now U+FFFD) or "control characters" (now gone).
        examples: for each reason and mending some documents, with what there is to say of them.
        inputs: what became of each input, by name.
        seconds: how long it took.
    """

    output: str
    documents: int = 0
    characters: int = 0
    paragraphs: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    mended: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    inputs: dict[str, InputCounts] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        total = self.documents + sum(self.dropped.values())
        lines = [
            f"{self.output}: {self.documents:,} of {total:,} documents kept, "
            f"{self.characters:,} characters in {self.paragraphs:,} paragraphs, "
            f"{self.seconds:.1f} s"
        ]
        rows = [("dropped", "documents", "for example")]
        rows += self._rows(self.dropped)
        for heading, counts in (("not read to the end", self.unread), ("mended", self.mended)):
            if counts:
                unit = "files" if counts is self.unread else "documents"
                rows += [(heading, unit, "for example"), *self._rows(counts)]
        if len(rows) > 1:
            first = max(len(row[0]) for row in rows)
            second = max(len(row[1]) for row in rows)
            for name, count, example in rows:
                shown = example if len(example) <= 70 else example[:67] + "..."
                lines.append(f"{name.ljust(first)}  {count.rjust(second)}  {shown}".rstrip())
        return "\n".join(lines)

    def _rows(self, counts: dict[str, int]) -> list[tuple[str, str, str]]:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [(name, f"{count:,}", self.examples[name][0]) for name, count in ordered]

    def note(self, counts: dict[str, int], reason: str, example: str) -> None:
        """Counts one more for `reason`."""
        counts[reason] = counts.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES:  # an identity in JSON may be half a surrogate pair
            shown.append(example.encode("utf-8", "replace").decode("utf-8"))


def extract(config: ExtractConfig) -> ExtractResult:
    """Writes the documents of `config.inputs` to `config.output`, which is replaced at the end.

    Raises:
        UserError: an input is missing or has no field of the text; an option is out of its range;
            a package is missing; nothing was left to keep; an input is broken and `strict` is set;
            the disk is full.
    """
    started = time.monotonic()
    _check(config)
    inputs = find_inputs(config)
    _check_output(config, inputs)
    result = ExtractResult(config.output, inputs={entry.name: InputCounts() for entry in inputs})
    with writing(config.output) as partial:
        with disk_errors(config.output), _open(partial, config.output) as file:
            for document in _kept(config, inputs, result):
                line = {
                    "id": document.id,
                    "title": document.title,
                    "text": document.text,
                    "source": document.source,
                }
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")
                result.documents += 1
                result.characters += len(document.text)
                result.paragraphs += document.text.count("\n\n") + 1
        if not result.documents:
            raise UserError(f"no document was kept: {_reasons(result)}")
        result.seconds = time.monotonic() - started
        _write_report(config, result)
    return result


def _check(config: ExtractConfig) -> None:
    if config.workers is not None and config.workers < 1:
        raise UserError(f"workers is {config.workers}; give 1 or more")
    if config.min_characters < 0:
        raise UserError(f"min_characters is {config.min_characters}; give 0 or more")
    if not 0 < config.near <= 1:
        raise UserError(f"near is {config.near}; give a share above 0, up to 1")
    if config.near != ExtractConfig.near and config.deduplicate != "near":
        raise UserError("--near is for --deduplicate near: give both, or neither")
    if config.encoding is not None:
        check_encoding(config.encoding)
    if config.language:
        known = known_languages()
        for code in config.language:
            if code not in known:
                raise UserError(f"language is {code!r}; known are {', '.join(known)}")
    if not config.output.endswith(SUFFIXES):
        raise UserError(f"the output {config.output} must end in {', '.join(SUFFIXES)}")


def _check_output(config: ExtractConfig, inputs: list[Input]) -> None:
    output = Path(config.output).resolve()
    check_output_is_file(config.output)
    check_output_apart(config.output, config.inputs)
    if any(entry.path is not None and entry.path.resolve() == output for entry in inputs):
        raise UserError(f"the output {config.output} is an input; choose another with --output")


def _kept(config: ExtractConfig, inputs: list[Input], result: ExtractResult) -> Iterator[Extracted]:
    """The documents to write; counts all others in `result`."""
    work = Converter(
        encoding=config.encoding,
        min_characters=config.min_characters,
        languages=frozenset(config.language),
        deduplicate=config.deduplicate,
    )
    duplicates = _Duplicates(config)
    workers = config.workers or processors()
    with (
        Progress("extracting", unit="documents", quiet=config.quiet) as progress,
        closing(parallel_map(work, _chunks(config, inputs), workers)) as chunks,
    ):
        for chunk in chunks:
            for outcome in chunk:
                if isinstance(outcome, Extracted):
                    outcome = duplicates.check(outcome)
                if isinstance(outcome, Dropped):
                    _count_dropped(config, result, outcome)
                else:
                    _count_mended(config, result, outcome)
                    yield outcome
            progress.advance(len(chunk))


def _chunks(config: ExtractConfig, inputs: list[Input]) -> Iterator[list[Raw | Dropped]]:
    chunk: list[Raw | Dropped] = []
    size = 0
    for entry in inputs:
        for raw in read_input(entry, config):
            chunk.append(raw)
            size += raw.size if isinstance(raw, Raw) else 100
            if size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


class _Duplicates:
    """Drops documents that came before."""

    def __init__(self, config: ExtractConfig) -> None:
        self.seen: set[bytes] = set()
        self.index = NearIndex(config.near) if config.deduplicate == "near" else None

    def check(self, document: Extracted) -> Extracted | Dropped:
        if not document.digest:
            return document
        if document.digest in self.seen:
            return Dropped(document.id, "exact duplicate", document.title, document.source)
        self.seen.add(document.digest)
        if self.index is not None:
            near = self.index.find_or_add(document.id, document.signature)
            if near is not None:
                detail = f"{100 * near[1]:.0f} % of {near[0]}"
                return Dropped(document.id, "near duplicate", detail, document.source)
        return document


def _count_dropped(config: ExtractConfig, result: ExtractResult, dropped: Dropped) -> None:
    said = f"{dropped.id}: {dropped.detail}" if dropped.detail else dropped.id
    if dropped.reason in STOPPING:
        if config.strict:
            raise UserError(f"{said}; mend it, or leave out --strict to skip it")
        if len(result.examples.get(dropped.reason, [])) < EXAMPLES:
            say(f"{'skipped' if dropped.whole else 'not read to the end:'} {said}", config.quiet)
    result.note(result.dropped if dropped.whole else result.unread, dropped.reason, said)
    if dropped.whole:
        result.inputs[dropped.source].dropped += 1


def _count_mended(config: ExtractConfig, result: ExtractResult, document: Extracted) -> None:
    result.inputs[document.source].kept += 1
    if document.mended.bytes:
        said = f"{document.id}: {document.mended.bytes} broken bytes or half surrogate pairs"
        if config.strict:
            raise UserError(f"{said}; mend it, or leave out --strict to replace them by U+FFFD")
        result.note(result.mended, "broken bytes", said)
    if document.mended.characters:
        said = f"{document.id}: {document.mended.characters} control characters"
        result.note(result.mended, "control characters", said)


def _reasons(result: ExtractResult) -> str:
    counts = {**result.dropped, **result.unread}
    if not counts:
        return "the inputs are empty"
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    said = ", ".join(f"{count} {reason}" for reason, count in ordered)
    return f"{said}; for example {result.examples[ordered[0][0]][0]}"


@contextmanager
def _open(partial: Path, output: str) -> Iterator[IO[bytes]]:
    """A file to write, packed as its final name says; its bytes depend on what is written only."""
    with open(partial, "wb") as raw:
        if output.endswith(".zst"):
            packer: Any = zstandard().ZstdCompressor(level=ZSTANDARD_LEVEL)
            with packer.stream_writer(raw, closefd=False) as packed:
                yield packed
        elif output.endswith(".gz"):
            with gzip.GzipFile("", "wb", GZIP_LEVEL, raw, mtime=0) as file:
                yield cast(IO[bytes], file)
        else:
            yield raw


def _write_report(config: ExtractConfig, result: ExtractResult) -> None:
    stem = config.output
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    report = {"bertkit": bertkit.__version__, **asdict(result)}
    with writing(f"{stem}.extract.json") as path:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    configuration.save(config, f"{stem}.extract.yaml")
