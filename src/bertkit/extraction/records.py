"""What travels between the stages of an extraction: sources → `Raw` → `Extracted` or `Dropped`.

The readers run in the caller's process and yield `Raw` documents in the order of the input; the
workers turn each into text. A `Dropped` may be made by either and takes its place in the order, so
that what is kept, counted and said does not depend on the number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

BROKEN = "broken"
BINARY = "binary"
STOPPING = (BROKEN, BINARY)
"""The reasons that `--strict` stops at: an input is not what it claims to be."""

LONGEST = 1 << 29
"""Characters of the longest document that is read; every document has to fit in memory."""


@dataclass(slots=True)
class Mended:
    """What was no text: `bytes` that their encoding does not know, now U+FFFD (as are lone
    surrogates), and control `characters`, now gone."""

    bytes: int = 0
    characters: int = 0


@dataclass(slots=True)
class Raw:
    """A document before its text is found.

    Attributes:
        kind: what `content` or the file at `path` is: "wikitext", "text", "html", "epub".
        id, title: its identity and title, "" where they are not known yet.
        source: the name of the input that it is from.
        content: the markup or text; None where `path` is to be read.
        path: the file of which the whole is the document.
        context: what the reader knows besides, such as a wiki's names for files and categories.
        mended: what the reader mended already.
    """

    kind: str
    id: str
    title: str
    source: str
    content: str | None = None
    path: Path | None = None
    context: tuple[str, ...] = ()
    mended: Mended = field(default_factory=Mended)

    @property
    def size(self) -> int:
        """About how many bytes a worker has to read."""
        if self.path is not None:
            return max(1, self.path.stat().st_size)
        return 100 + len(self.content or "")


@dataclass(slots=True)
class Extracted:
    """A document with its text; `digest` and `signature` are what duplicates are known by."""

    id: str
    title: str
    text: str
    source: str
    mended: Mended
    digest: bytes = b""
    signature: bytes = b""


@dataclass(slots=True)
class Dropped:
    """A document, or the rest of a file, that does not become text, and why.

    Attributes:
        id: its identity.
        reason: one of a few short names, which the report counts.
        detail: what there is to say about this one.
        source: the name of the input.
        whole: whether it is a document; otherwise a file or the unread rest of one.
    """

    id: str
    reason: str
    detail: str
    source: str
    whole: bool = True
