"""Paths and hub names in, `Raw` documents out, in the order given; folders in path order.

What a file is is known by the ending of its name (below .gz, .bz2, .xz, .zst), or by its first
bytes where the name says nothing. In a folder, files of unknown endings are passed over.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertkit.errors import UserError
from bertkit.extraction.config import ExtractConfig
from bertkit.extraction.encodings import BinaryFile
from bertkit.extraction.hub import PREFIX, read_hub
from bertkit.extraction.mediawiki import read_dump
from bertkit.extraction.records import BINARY, BROKEN, Dropped, Raw
from bertkit.extraction.tables import Fields, read_csv, read_jsonl, read_parquet
from bertkit.extraction.textfile import read_lines
from bertkit.files import damage, open_unpacked
from bertkit.progress import say
from bertkit.text.documents import (
    JSONL_SUFFIXES,
    TEXT_SUFFIXES,
    distinct_names,
    existing,
    visible_files,
)

_PACKED = frozenset({".gz", ".bz2", ".xz", ".zst"})
_FORMATS = {
    **dict.fromkeys(JSONL_SUFFIXES, "jsonl"),
    **dict.fromkeys(TEXT_SUFFIXES, "text"),
    **dict.fromkeys([".html", ".htm", ".xhtml"], "html"),
    ".epub": "epub", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".xml": "mediawiki",
}  # fmt: skip
_DUMP_PART = re.compile(r"\.xml-p\d+p\d+$")  # a part of a large dump
_DUMP_INDEX = re.compile(r"-index\d*\.txt")  # of a multistream dump; no text


@dataclass(frozen=True)
class Input:
    """One input: a file, or a data set of the hub (`path` is None)."""

    name: str
    format: str
    path: Path | None


def find_inputs(config: ExtractConfig) -> list[Input]:
    """All inputs, each file once, with names that differ.

    Raises:
        UserError: one is missing or neither file nor folder; a folder has none.
    """
    found: dict[Path, tuple[Path, str]] = {}
    order: list[Path | str] = []
    skipped: Counter[str] = Counter()
    for given in config.inputs:
        if given.startswith(PREFIX):
            order.append(given)
            continue
        path = Path(given)
        if path.is_dir():
            inside = _walk(path, skipped, config.format)
            if not inside:
                raise UserError(f"folder {path} has no file that could be read; see --help")
            files = [(file, file.relative_to(path).as_posix()) for file in inside]
        else:
            files = [(existing(path), path.name)]
        for file, name in files:
            if file.resolve() not in found:
                found[file.resolve()] = (file, name)
                order.append(file.resolve())
    if skipped:
        endings = ", ".join(f"{count} {ending}" for ending, count in skipped.most_common(5))
        say(f"passed over {skipped.total()} files of other kinds: {endings}", config.quiet)
    names = distinct_names({path: name for path, (_, name) in found.items()})
    inputs = []
    for place in dict.fromkeys(order):
        if isinstance(place, str):
            inputs.append(Input(place, "hub", None))
        else:
            path = found[place][0]
            inputs.append(Input(names[place], _format(path, config.format), path))
    return inputs


def _walk(folder: Path, skipped: Counter[str], form: str) -> list[Path]:
    found = []
    for path in visible_files(folder):
        if not path.is_file():
            continue
        if not _DUMP_INDEX.search(path.name) and (_by_name(path.name) or form != "auto"):
            found.append(path)
        else:
            skipped[path.suffix.lower() or "without ending"] += 1
    return sorted(found)


def _by_name(name: str) -> str | None:
    path = Path(name.lower())
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return "mediawiki" if _DUMP_PART.search(path.name) else _FORMATS.get(path.suffix)


def _format(path: Path, given: str) -> str:
    if given != "auto":
        return given
    return _by_name(path.name) or _by_content(path)


def _by_content(path: Path) -> str:
    """What a file is by its beginning; text if that says nothing."""
    try:
        with open_unpacked(path) as file:
            head = file.read(2048)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return "text"  # reading it says what is wrong
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"PK") and b"application/epub" in head:
        return "epub"
    if head.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"<mediawiki") or b"<mediawiki" in start[:1000]:
        return "mediawiki"
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or (
        start.startswith(b"<?xml") and b"<html" in start
    ):
        return "html"
    if re.match(rb"\{\s*\"", start):
        return "jsonl"
    return "text"


def read_input(entry: Input, config: ExtractConfig) -> Iterator[Raw | Dropped]:
    """The documents of one input in order; what is broken in it is a `Dropped` in its place."""
    try:
        yield from _read(entry, config)
    except BinaryFile as error:
        yield Dropped(entry.name, BINARY, str(error), entry.name, whole=False)
    except UnicodeError as error:
        detail = f"cannot be read in its encoding: {error}"
        yield Dropped(entry.name, BROKEN, detail, entry.name, whole=False)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = damage(error)
        if reason is None:
            reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        yield Dropped(entry.name, BROKEN, reason, entry.name, whole=False)


def _read(entry: Input, config: ExtractConfig) -> Iterator[Raw | Dropped]:
    fields = Fields(config.text_field, config.title_field, config.id_field)
    name, encoding = entry.name, config.encoding
    if entry.path is None:
        yield from read_hub(name, fields)
    elif entry.format == "parquet":
        yield from read_parquet(entry.path, name, fields)
    elif entry.format in ("epub", "html") or (
        entry.format == "text" and config.documents == "file"
    ):
        yield Raw(entry.format, name, "", name, path=entry.path)
    else:
        with open_unpacked(entry.path) as stream:
            if entry.format == "mediawiki":
                yield from read_dump(stream, name, encoding)
            elif entry.format == "jsonl":
                yield from read_jsonl(stream, name, encoding, fields)
            elif entry.format in ("csv", "tsv"):
                yield from read_csv(stream, name, encoding, fields, entry.format == "tsv")
            else:
                yield from read_lines(stream, name, encoding, config.documents)
