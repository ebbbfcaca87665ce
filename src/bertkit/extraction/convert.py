"""The workers' part: `Raw` documents in, for each its text or why it is dropped out.

All that concerns one document alone happens here: markup to text, mended characters, the shortest
length, the language, and the marks that duplicates are known by. A document that a parser fails on
is broken, whatever the failure is, and does not end a run of hours.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from bertkit.errors import UserError
from bertkit.extraction.encodings import BinaryFile, clean, decode, refuse_noise
from bertkit.extraction.epub import epub_to_text
from bertkit.extraction.filters import digest, languages_of, signature
from bertkit.extraction.html import html_to_text
from bertkit.extraction.plain import to_paragraphs, without_gutenberg
from bertkit.extraction.records import BINARY, BROKEN, LONGEST, Dropped, Extracted, Mended, Raw
from bertkit.extraction.wikitext import wikitext_to_text
from bertkit.files import damage, open_unpacked


@dataclass(frozen=True)
class Converter:
    """What a worker is given once; calling it converts a chunk of documents."""

    encoding: str | None
    min_characters: int
    languages: frozenset[str]
    deduplicate: str

    def __call__(self, chunk: list[Raw | Dropped]) -> list[Extracted | Dropped]:
        return [raw if isinstance(raw, Dropped) else self.convert(raw) for raw in chunk]

    def convert(self, raw: Raw) -> Extracted | Dropped:
        def drop(reason: str, detail: str) -> Dropped:
            return Dropped(raw.id, reason, detail, raw.source)

        mended = Mended(raw.mended.bytes, raw.mended.characters)
        try:
            title, text = self._text(raw, mended)
        except UserError:
            raise
        except BinaryFile as error:
            return drop(BINARY, str(error))
        except zipfile.BadZipFile as error:
            return drop(BROKEN, f"is no whole zip: {error}")
        except MemoryError:
            raise
        except ImportError as error:
            raise UserError(
                f"{raw.kind} needs a package that is missing ({error}); "
                'pip install "bertkit[extract]"'
            ) from None
        except Exception as error:
            return drop(BROKEN, damage(error) or _line(error))
        title = raw.title or title
        if not text:
            return drop("empty", title)
        if len(text) < self.min_characters:
            return drop("too short", f"{len(text)} characters")
        if self.languages and not self.languages.intersection(codes := languages_of(text)):
            return drop("other language", f"{codes[0]}: {text[:60]}")
        return Extracted(
            id=clean(raw.id, Mended()),
            title=" ".join(clean(title, Mended()).split()),
            text=text,
            source=raw.source,
            mended=mended,
            digest=b"" if self.deduplicate == "none" else digest(text),
            signature=signature(text) if self.deduplicate == "near" else b"",
        )

    def _text(self, raw: Raw, mended: Mended) -> tuple[str, str]:
        """Title and text, clean and in paragraphs."""
        if raw.kind == "epub":
            assert raw.path is not None
            title, text = epub_to_text(raw.path, mended)
            text, _ = without_gutenberg(clean(text, mended))
            return title, text.strip("\n")
        content = raw.content
        if content is None:
            assert raw.path is not None
            content = decode(_read(raw.path), self.encoding, mended)
        content = clean(content, mended)
        if raw.kind == "wikitext":
            return raw.title, wikitext_to_text(content, raw.context)
        if raw.content is not None:  # of a stream, whose encoding was found from its beginning
            refuse_noise(mended.bytes, len(content), self.encoding or "the encoding of its file")
        if raw.kind == "html":
            title, text = html_to_text(content)
            return title, without_gutenberg(text)[0].strip("\n")
        title = ""
        if raw.path is not None:
            content, title = without_gutenberg(content)
            title = title or raw.path.name.partition(".")[0]
        return title, to_paragraphs(content)


def _read(path: Path) -> bytes:
    with open_unpacked(path) as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ValueError(f"has more than {LONGEST >> 20} MB; divide it, with --documents perhaps")
    return data


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    if isinstance(error, (ValueError, OSError)) and text:
        return text
    return f"cannot be parsed ({type(error).__name__}: {text})"
