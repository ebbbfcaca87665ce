"""Documents: files and folders in, a stream of (identity, text) out.

Comes in: plain text (UTF-8, with or without BOM, any line ends) and JSONL (also packed, as
`bertkit extract` writes it: .jsonl.zst, .jsonl.gz), as a file, several, or folders. Goes out: one
`Document` after another in path order, never more than one in memory.

Choices worth knowing:
- In plain text a document is a file, a paragraph block between blank lines (the reference
  release's own input format), or a line. In JSONL it is always an object.
- An identity is readable and points back to its place: the file's name, with the line where the
  document starts ("news.txt:1042"), or the JSONL object's own "id".
- Hidden files and files that are neither text nor JSONL are passed over in a folder; a file named
  by the user is always read.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from bertkit.errors import UserError
from bertkit.files import damage, open_unpacked
from bertkit.progress import say

DOCUMENT_MODES = ("auto", "file", "blank-line", "line")
TEXT_SUFFIXES = frozenset({".txt", ".text"})
JSONL_SUFFIXES = frozenset({".jsonl", ".json-lines", ".jsonlines", ".ndjson"})
PACKED_SUFFIXES = frozenset({".gz", ".bz2", ".xz", ".zst"})
"""A JSONL file may end with one of these besides."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    Attributes:
        id: its readable identity.
        text: its text; lines end with a newline character, whatever the file had.
        named: whether the source gave the identity (JSONL "id"), so that it outlives a change of
            the text, of the file's name and of the document's place in it.
    """

    id: str
    text: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to read: where it is, what it is called, whether the user named it himself."""

    path: Path
    name: str
    explicit: bool

    @property
    def is_jsonl(self) -> bool:
        return is_jsonl(self.path)


def read_documents(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    documents: str = "auto",
    text_field: str = "text",
    errors: str = "strict",
    quiet: bool = False,
) -> Iterator[Document]:
    """Streams the documents of files and folders, in the order of their paths.

    The order in which `paths` are given changes nothing. Documents of nothing but white space are
    left out.

    Args:
        paths: a file, a folder (read with its sub-folders), or several.
        documents: what a document is in plain text: "file", "blank-line", "line", or "auto": a
            file, unless there is only one text file; then blank lines divide it, and that is said.
        text_field: the field of a JSONL object that holds the text.
        errors: "strict" refuses broken UTF-8, "replace" puts U+FFFD in its place.
        quiet: say nothing on stderr.

    Raises:
        UserError: a path is missing or unreadable; a folder has no document; a file that the user
            named has none; broken UTF-8 (with its byte); a bad JSONL line (with its number). What
            is known from the paths alone is raised at once, the rest while reading.
    """
    if documents not in DOCUMENT_MODES:
        raise UserError(f"documents is {documents!r}; choose one of {', '.join(DOCUMENT_MODES)}")
    if errors not in ("strict", "replace"):
        raise UserError(f"errors is {errors!r}; choose strict or replace")
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    sources = _find_sources([Path(path) for path in paths], quiet)
    if documents == "auto":
        plain = [source for source in sources if not source.is_jsonl]
        documents = "blank-line" if len(plain) == 1 else "file"
        if documents == "blank-line":
            say(
                f"{plain[0].name}: one text file, so blank lines divide it into documents "
                "(--documents file|line changes that)",
                quiet,
            )
    return _read_all(sources, documents, text_field, errors, quiet)


def is_jsonl(path: PurePath) -> bool:
    """Whether a file's name says that it is JSONL, packed or not."""
    if path.suffix.lower() in PACKED_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower() in JSONL_SUFFIXES


def _read_all(
    sources: list[_Source], documents: str, text_field: str, errors: str, quiet: bool
) -> Iterator[Document]:
    blank = 0
    for source in sources:
        if source.is_jsonl:
            stream = _read_jsonl(source, text_field, errors)
        else:
            stream = _read_text(source, documents, errors)
        empty = True
        try:
            for document in stream:
                empty = False
                yield document
        except UnicodeDecodeError:
            raise broken_utf8(source.path, ", or use --errors replace") from None
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            if kind := damage(error):
                raise UserError(f"{source.path} {kind}; make or fetch it again") from error
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"cannot read {source.path}: {reason}") from error
        if empty and (source.explicit or len(sources) == 1):
            raise UserError(
                f"{source.path} holds no document: it is empty or blank; give a file with text"
            )
        blank += empty
    if blank == len(sources):
        raise UserError(f"all {blank} files are empty or blank; give files with text")
    if blank:
        say(f"passed over {blank} empty or blank {'file' if blank == 1 else 'files'}", quiet)


# ---- finding files ---------------------------------------------------------------------------


def _find_sources(paths: list[Path], quiet: bool) -> list[_Source]:
    """All files to read, each once, sorted by path, with names that differ."""
    if not paths:
        raise UserError("no input; give a text file, a JSONL file or a folder")
    found: dict[Path, _Source] = {}
    skipped: Counter[str] = Counter()
    for path in sorted(paths):
        if path.is_dir():
            before = len(found)
            inside = sorted(_walk(path, skipped))
            for file in inside:  # of links to one file the first gives its name
                name = file.relative_to(path).as_posix()
                found.setdefault(file.resolve(), _Source(file, name, False))
            if not inside and len(found) == before:
                raise UserError(
                    f"folder {path} has no document; text files end in .txt and JSONL in .jsonl "
                    "(a file with another ending can be given by its name)"
                )
        else:
            found[existing(path).resolve()] = _Source(path, path.name, True)
    if skipped:
        endings = ", ".join(f"{count} {ending}" for ending, count in skipped.most_common(5))
        say(f"passed over {skipped.total()} files that are not text or JSONL: {endings}", quiet)
    names = distinct_names({path: source.name for path, source in found.items()})
    sources = [
        _Source(source.path, names[resolved], source.explicit) for resolved, source in found.items()
    ]
    return sorted(sources, key=lambda source: PurePath(source.name).parts)


def _walk(folder: Path, skipped: Counter[str]) -> Iterator[Path]:
    for path in visible_files(folder):
        suffix = path.suffix.lower()
        if suffix in TEXT_SUFFIXES or is_jsonl(path):
            yield path
        else:
            skipped[suffix or "without ending"] += 1


def visible_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and its sub-folders, without hidden ones, in no particular order.

    Raises:
        UserError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise UserError(f"cannot read folder {error.filename}: {error.strerror}") from error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in files if not name.startswith("."))


def existing(path: Path) -> Path:
    """The path itself; UserError if it is no file or folder."""
    if path.is_dir() or path.is_file():
        return path
    if path.exists():
        raise UserError(f"{path} is neither a file nor a folder; save it to a file first")
    raise UserError(f"there is no file or folder {path}; check the name")


def check_output_is_file(output: str, option: str = "--output") -> None:
    """Raises UserError for an output that is a folder and should be a file."""
    if Path(output).is_dir():
        raise UserError(f"{output} is a folder; name a file in it with {option}")


def check_output_apart(output: str, inputs: Sequence[str], option: str = "--output") -> None:
    """Raises UserError for an output that is one of the inputs, or inside one that is a folder.

    option is what names the output on the command line.
    """
    place = Path(output).resolve()
    for path in inputs:
        if Path(path).is_file() and Path(path).resolve() == place:
            raise UserError(
                f"the output {output} is the input too, which would be lost; choose another place "
                f"with {option}"
            )
        if Path(path).is_dir() and Path(path).resolve() in (place, *place.parents):
            raise UserError(
                f"the output {output} lies inside the input folder {path} and would be read as an "
                f"input the next time; choose another place with {option}"
            )


def distinct_names(names: dict[Path, str]) -> dict[Path, str]:
    """Names of files by their resolved paths, without two that are the same.

    Of two files with one name both get as many parent folders as tell them apart. So a name does
    not depend on the order of the inputs: a/x.txt and b/x.txt given as files are "a/x.txt" and
    "b/x.txt" whichever comes first.
    """
    names = dict(names)
    while True:
        counts = Counter(names.values())
        clashing = [path for path, name in names.items() if counts[name] > 1]
        if not clashing:
            break
        for path in clashing:
            parts = len(PurePath(names[path]).parts) + 1
            names[path] = PurePath(*path.parts[-parts:]).as_posix()
    # the bytes of a file's name need not be UTF-8, but an identity is
    return {
        path: name.encode("utf-8", "backslashreplace").decode("utf-8")
        for path, name in names.items()
    }


# ---- reading one file ------------------------------------------------------------------------


def _read_text(source: _Source, documents: str, errors: str) -> Iterator[Document]:
    # utf-8-sig drops a BOM; universal newlines make every line end "\n"
    with io.TextIOWrapper(open_unpacked(source.path), encoding="utf-8-sig", errors=errors) as file:
        if documents == "file":
            text = file.read()
            if text.strip():
                yield Document(source.name, text)
        elif documents == "line":
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield Document(f"{source.name}:{number}", line.rstrip("\n"))
        else:
            lines: list[str] = []
            first = 1
            for number, line in enumerate(file, start=1):
                if not line.isspace():
                    if not lines:
                        first = number
                    lines.append(line)
                elif lines:
                    yield Document(f"{source.name}:{first}", "".join(lines))
                    lines = []
            if lines:
                yield Document(f"{source.name}:{first}", "".join(lines))


def _read_jsonl(source: _Source, text_field: str, errors: str) -> Iterator[Document]:
    # newline="\n": U+000D may stand unescaped between the tokens of JSON
    with io.TextIOWrapper(
        open_unpacked(source.path), encoding="utf-8-sig", errors=errors, newline="\n"
    ) as file:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            document = _parse_json(line, f"{source.path}, line {number}", text_field, errors)
            if document.text.strip():
                place = document.id or f"{source.name}:{number}"
                yield Document(place, document.text, document.named)


def parse_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object of one line of JSONL; UserError, beginning with `where`, if it is none."""
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{where}: not JSON ({error.msg} at character {error.pos + 1}); "
            "JSONL has one whole object a line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not readable as JSON ({error}); mend the line") from None
    if not isinstance(record, dict):
        raise UserError(f"{where}: a JSON {json_kind(record)} where an object is expected")
    return record


def _parse_json(line: str, where: str, text_field: str, errors: str) -> Document:
    record = parse_object(line, where)
    if text_field not in record:
        fields = ", ".join(list(record)[:8]) or "none"
        raise UserError(
            f"{where}: no field {text_field!r} (it has: {fields}); name the field with --text-field"
        )
    text, identity = record[text_field], record.get("id")
    if not isinstance(text, str):
        raise UserError(f"{where}: field {text_field!r} is a {json_kind(text)}, not a text")
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, str | int)):
        raise UserError(f'{where}: field "id" is a {json_kind(identity)}; use a text or a number')
    named = identity is not None and str(identity) != ""
    name = str(identity) if named else ""
    # only an escape can make one: UTF-8 has none
    if "\\u" in line and (_SURROGATE.search(text) or _SURROGATE.search(name)):
        if errors == "strict":
            raise UserError(
                f"{where}: half a surrogate pair, which is not a character; "
                "mend the line or use --errors replace"
            )
        text, name = _SURROGATE.sub("\ufffd", text), _SURROGATE.sub("\ufffd", name)
    return Document(name, text.replace("\r\n", "\n").replace("\r", "\n"), named)


def json_kind(value: object) -> str:
    """What JSON calls a value of this kind."""
    kinds = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return kinds.get(type(value), "number")


def broken_utf8(path: Path, alternative: str = "") -> UserError:
    """The error for a file that is not UTF-8, with the place of its first broken byte.

    `alternative` names what the user can do other than convert the file.
    """
    offset = 0
    with open_unpacked(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                return UserError(f"{path} is UTF-16, not UTF-8; convert it to UTF-8")
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                position = offset + error.start
                return UserError(
                    f"{path} is not UTF-8 at byte {position} (0x{line[error.start]:02x}, line "
                    f"{number}); convert it to UTF-8{alternative}"
                )
            offset += len(line)
    return UserError(f"{path} changed while it was read; run again")
