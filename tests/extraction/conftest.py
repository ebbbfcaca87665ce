"""Inputs that every test of the extraction can make: a dump, a book, and a way to run and read."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from bertkit.extraction.config import ExtractConfig
from bertkit.extraction.extract import ExtractResult, extract
from bertkit.files import open_unpacked

Run = Callable[..., tuple[ExtractResult, list[dict[str, Any]]]]


def page(title: str, text: str, number: int = 1, namespace: int = 0, redirect: str = "") -> str:
    mark = f'<redirect title="{redirect}" />' if redirect else ""
    return (
        f"<page><title>{escape(title)}</title><ns>{namespace}</ns><id>{number}</id>{mark}"
        f"<revision><id>9{number}</id><model>wikitext</model>"
        f'<text xml:space="preserve">{escape(text)}</text></revision></page>'
    )


def dump(*pages: str) -> str:
    return (
        '<mediawiki xml:lang="en"><siteinfo><dbname>testwiki</dbname><namespaces>'
        '<namespace key="0" /><namespace key="1">Talk</namespace>'
        '<namespace key="6">Picture</namespace></namespaces></siteinfo>'
        + "\n".join(pages)
        + "</mediawiki>"
    )


ARTICLES = [page(f"Town {n}", f"Town {n} has {n} people.", n) for n in range(1, 60)]


def write_epub(
    path: Path, pages: Mapping[str, str | bytes], extra: dict[str, str] | None = None
) -> Path:
    items = "".join(
        f'<item id="p{n}" href="{name}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(pages)
    )
    order = "".join(f'<itemref idref="p{n}"/>' for n in range(len(pages)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        book.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        )
        book.writestr(
            "OEBPS/book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A Book</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{order}</spine></package>",
        )
        for name, content in pages.items():
            book.writestr(f"OEBPS/{name}", content)
        for name, content in (extra or {}).items():
            book.writestr(name, content)
    return path


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    with open_unpacked(path) as file:
        return [json.loads(line) for line in file.read().decode("utf-8").splitlines()]


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Extracts from paths with options, in this process; the result and the documents."""

    def call(*inputs: str | Path, **options: Any) -> tuple[ExtractResult, list[dict[str, Any]]]:
        options.setdefault("output", str(tmp_path_factory.mktemp("out") / "docs.jsonl"))
        options.setdefault("workers", 1)
        config = ExtractConfig(inputs=[str(path) for path in inputs], quiet=True, **options)
        return extract(config), read_jsonl(config.output)

    return call
