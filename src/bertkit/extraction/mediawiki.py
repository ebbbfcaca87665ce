"""MediaWiki XML dumps: a stream of bytes in, the articles' wikitext out, one page in memory.

The parser is expat, which reads in pieces. A document type is refused, for only there can entities
be declared that grow without end. Broken UTF-8 and characters that XML forbids are mended before
the parser sees them: a dump of 90 GB should not end at one bad byte. A page of more than `LONGEST`
characters is dropped while it streams by.

A page is an article if its namespace is 0 (or, in old dumps without <ns>, if its title begins with
the name of no other namespace) and it redirects nowhere. Of several revisions the last one counts.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from bertkit.extraction.encodings import MARKED, mend, xml_encoding
from bertkit.extraction.records import BROKEN, LONGEST, Dropped, Mended, Raw

_BLOCK = 1 << 18
_FORBIDDEN = bytes(code for code in range(32) if code not in (9, 10, 13))
_NO_CHARACTERS = tuple(text.encode("utf-8") for text in ("\ufffe", "\uffff"))
"""The two beyond ASCII that XML forbids, and expat with it."""
_REPLACEMENT = "\ufffd".encode()
_REDIRECT = re.compile(r"\s*#\w+\s*:?\s*\[\[")
_TEXT_MODELS = ("", "wikitext")
_KEPT = frozenset({"title", "ns", "id", "text", "model", "namespace", "dbname"})


class _Parser:
    """Builds pages from the events of expat; those that are complete wait in `ready`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.ready: list[Raw | Dropped] = []
        self.wiki = ""
        self.namespaces: dict[str, int] = {}
        self.files_and_categories: tuple[str, ...] = ()
        self.mended = Mended()
        self.page: dict[str, str] | None = None
        self.path: list[str] = []
        self.parts: list[str] | None = None
        self.length = 0
        self.key = ""
        self.expat = expat.ParserCreate("utf-8")
        self.expat.buffer_text = True
        self.expat.buffer_size = 1 << 16
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._characters
        self.expat.StartDoctypeDeclHandler = self._doctype

    def _doctype(self, *_: object) -> None:
        raise ValueError("declares a document type, which no dump has")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.path and name != "mediawiki":
            raise ValueError(f"is XML of another kind (<{name[:40]}>), not a MediaWiki dump")
        self.path.append(name)
        if name == "page":
            self.page = {}
        elif name == "redirect" and self.page is not None:
            self.page["redirect"] = attributes.get("title", "")
        if name in _KEPT and (name != "id" or self.path[-2] == "page"):
            self.parts, self.length = [], 0
            self.key = attributes.get("key", "")

    def _characters(self, text: str) -> None:
        if self.parts is not None:
            self.length += len(text)
            if self.length <= LONGEST:
                self.parts.append(text)

    def _end(self, name: str) -> None:
        self.path.pop()
        if self.parts is not None and name in _KEPT:
            self._value(name, "".join(self.parts))
            self.parts = None
        elif name == "page":
            self._page()
        elif name == "namespaces":
            named = [name for name, number in self.namespaces.items() if number in (6, 14)]
            self.files_and_categories = tuple(sorted(named))

    def _value(self, name: str, text: str) -> None:
        if name == "dbname":
            self.wiki = text.strip()
        elif name == "namespace" and text:
            self.namespaces[text.strip().lower()] = int(self.key) if self.key else -1
        elif self.page is not None:
            if self.length > LONGEST:
                self.page["long"] = str(self.length)
            self.page[name] = text

    def _page(self) -> None:
        page, self.page = self.page or {}, None
        title = page.get("title", "").strip()
        number = page.get("id", "").strip()
        identity = f"{self.wiki or self.source}:{number or title}"
        namespace = page.get("ns", "").strip()
        if not namespace:
            prefix = title.partition(":")[0].strip().lower() if ":" in title else ""
            namespace = str(self.namespaces.get(prefix, 0))
        text = page.get("text", "")
        reason = detail = ""
        if namespace != "0":
            reason, detail = "not an article", f"namespace {namespace}: {title}"
        elif "redirect" in page or _REDIRECT.match(text):
            reason, detail = "redirect", title
        elif page.get("model", "").strip() not in _TEXT_MODELS:
            reason, detail = "not an article", f"{page['model']}: {title}"
        elif "long" in page:
            reason, detail = "too long", f"{title}: {page['long']} characters"
        if reason:
            self.ready.append(Dropped(identity, reason, detail, self.source))
        else:
            names = self.files_and_categories
            mended, self.mended = self.mended, Mended()
            self.ready.append(
                Raw("wikitext", identity, title, self.source, text, None, names, mended)
            )


def read_dump(stream: BinaryIO, source: str, encoding: str | None) -> Iterator[Raw | Dropped]:
    """The pages of a dump in order: articles as `Raw`, the others as `Dropped`.

    A dump that is cut off or damaged gives what comes before and then one `Dropped` with the
    reason `BROKEN`. What is mended (bytes that are no text) is counted with the next page.

    Raises:
        OSError, EOFError, zlib.error, lzma.LZMAError: the stream cannot be read on.
    """
    parser = _Parser(source)
    head = stream.read(_BLOCK)
    decoder = codecs.getincrementaldecoder(xml_encoding(head, encoding))(MARKED)
    block = head
    try:
        while True:
            text = mend(decoder.decode(block, final=not block), parser.mended)
            data = text.encode("utf-8")
            clean = data.translate(None, _FORBIDDEN)
            parser.mended.characters += len(data) - len(clean)
            for code in _NO_CHARACTERS:
                if count := clean.count(code):
                    clean = clean.replace(code, _REPLACEMENT)
                    parser.mended.characters += count
            parser.expat.Parse(clean, not block)
            yield from parser.ready
            parser.ready.clear()
            if not block:
                return
            block = stream.read(_BLOCK)
    except (expat.ExpatError, ValueError) as error:
        yield from parser.ready
        line = parser.expat.CurrentLineNumber
        if isinstance(error, expat.ExpatError):
            inside = f" inside page {parser.page.get('title', '?')!r}" if parser.page else ""
            problem = expat.ErrorString(error.code)
            what = (
                "ends too early (it is cut off)" if not block else f"is not well-formed: {problem}"
            )
            detail = f"the XML {what}, line {line}{inside}"
        else:
            detail = f"{error}"
        yield Dropped(source, BROKEN, detail, source, whole=False)
