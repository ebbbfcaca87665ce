"""An EPUB book in, its title and text out: the chapters in the order of the book's spine.

An EPUB is a zip of XHTML pages; META-INF/container.xml names the package file, which has the title,
the files and their order. Pages that the package calls navigation, or that are outside the order
(linear="no"), are left out, and so are tables, lists of contents and notes' numbers. XML is read
without entities, network or document types, and no member larger than `_LARGEST` is unpacked.
"""

from __future__ import annotations

import posixpath
import re
import urllib.parse
import zipfile
from pathlib import Path
from typing import Any

from bertkit.extraction.encodings import decode
from bertkit.extraction.records import Mended

_LARGEST = 1 << 28
"""Bytes of the largest member, unpacked; a book's whole text is seldom over 10 MB."""

_PARAGRAPHS = frozenset(
    "p div blockquote h1 h2 h3 h4 h5 h6 li dt dd section article body pre figcaption br hr".split()  # noqa: SIM905
)
_LEFT_OUT = frozenset("table script style nav svg math figure audio video head rt rp".split())  # noqa: SIM905
_NOTE = re.compile(r"noteref|footnote|doc-noteref", re.IGNORECASE)


def epub_to_text(path: Path, mended: Mended) -> tuple[str, str]:
    """Title and text of a book, paragraphs divided by a blank line; counts what is mended.

    Its pages are UTF-8 or UTF-16 (EPUB allows no other), or say themselves what they are.

    Raises:
        ValueError: it is no whole EPUB, or it is encrypted.
        zipfile.BadZipFile, zlib.error, EOFError, OSError: it is damaged.
    """
    with zipfile.ZipFile(path) as book:
        names = set(book.namelist())
        if "META-INF/container.xml" not in names:
            raise ValueError("is a zip without META-INF/container.xml, not an EPUB")
        container = _xml(_read(book, "META-INF/container.xml"))
        package_name = next(
            (str(e.get("full-path")) for e in container.iter("{*}rootfile") if e.get("full-path")),
            "",
        )
        if package_name not in names:
            raise ValueError("is an EPUB without its package file")
        package = _xml(_read(book, package_name))
        folder = posixpath.dirname(package_name)
        encrypted = _encrypted(book, names)
        paragraphs: list[str] = []
        for reference in _spine(package):
            name = posixpath.normpath(posixpath.join(folder, urllib.parse.unquote(reference)))
            if name in encrypted:
                raise ValueError("is encrypted (DRM), so its text cannot be read")
            if name not in names:
                raise ValueError(f"is an EPUB whose page {name} is missing")
            paragraphs += page_paragraphs(_read(book, name), mended)
        title = next((e.text or "" for e in package.iter("{*}title")), "")
        return " ".join(title.split()), "\n\n".join(paragraphs)


def _read(book: zipfile.ZipFile, name: str) -> bytes:
    if book.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"has a page of more than {_LARGEST >> 20} MB: {name}")
    with book.open(name) as member:
        data = member.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"has a page of more than {_LARGEST >> 20} MB: {name}")
    return data


def _xml(data: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"has broken XML: {error}") from None


def _encrypted(book: zipfile.ZipFile, names: set[str]) -> set[str]:
    """Members that are encrypted; fonts often are, and need not be read."""
    if "META-INF/encryption.xml" not in names:
        return set()
    listed = _xml(_read(book, "META-INF/encryption.xml")).iter("{*}CipherReference")
    return {urllib.parse.unquote(str(entry.get("URI", ""))) for entry in listed}


def _spine(package: Any) -> list[str]:
    """The pages in reading order, without navigation."""
    items = {item.get("id"): item for item in package.iter("{*}item")}
    found = []
    for reference in package.iter("{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or reference.get("linear") == "no" or item.get("href") is None:
            continue
        if "nav" in (item.get("properties") or "").split():
            continue
        if "html" in (item.get("media-type") or "html"):
            found.append(str(item.get("href")).partition("#")[0])
    if not found:
        raise ValueError("is an EPUB without any page in its order")
    return found


def page_paragraphs(data: bytes, mended: Mended) -> list[str]:
    """The paragraphs of an XHTML page, in order."""
    from lxml import etree

    text = decode(data, None, mended)
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    root = etree.fromstring(text, etree.HTMLParser(no_network=True, huge_tree=True))
    if root is None:
        return []
    pieces: list[str] = []
    # an explicit stack of (element, whether it is left): pages may nest deeper than Python does
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        element, leaving = stack.pop()
        name = element.tag if isinstance(element.tag, str) else ""
        block = name in _PARAGRAPHS
        if leaving:
            pieces.append("\n" if block else "")
            pieces.append(_one_line(element.tail))
            continue
        if not name or name in _LEFT_OUT or _is_note_mark(element):
            pieces.append(_one_line(element.tail))
            continue
        pieces.append("\n" if block else "")
        pieces.append(_one_line(element.text))
        stack.append((element, True))
        stack.extend((child, False) for child in reversed(element))
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return [line for line in lines if line]


def _one_line(text: str | None) -> str:
    return text.replace("\n", " ") if text else ""


def _is_note_mark(element: Any) -> bool:
    kind = " ".join(
        value for name, value in element.attrib.items() if name in ("epub:type", "role", "class")
    )
    return element.tag in ("a", "sup") and bool(_NOTE.search(kind))
