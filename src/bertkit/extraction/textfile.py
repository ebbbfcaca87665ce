"""A text file with many documents in, a `Raw` for each out: between blank lines, or a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from bertkit.extraction.records import Raw
from bertkit.extraction.tables import text_stream


def read_lines(
    stream: BinaryIO, source: str, encoding: str | None, documents: str
) -> Iterator[Raw]:
    """The documents of one text file; each is named by the line where it starts.

    Args:
        documents: "line" or "blank-line".

    Raises:
        BinaryFile: it does not begin like a text.
    """
    lines: list[str] = []
    first = 1

    def document() -> Raw:
        content = "".join(lines)
        lines.clear()
        return Raw("text", f"{source}:{first}", "", source, content)

    with text_stream(stream, encoding, None) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                if lines:
                    yield document()
                continue
            if not lines:
                first = number
            lines.append(line)
            if documents == "line":
                yield document()
        if lines:
            yield document()
