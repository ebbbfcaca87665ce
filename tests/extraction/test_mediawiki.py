"""Dumps are streamed: packed or not, cut off or broken, and only articles come out."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from bertkit.errors import UserError
from bertkit.extraction import mediawiki
from bertkit.extraction.mediawiki import read_dump
from bertkit.extraction.records import BROKEN, Dropped, Raw

from .conftest import ARTICLES, Run, dump, page


def outcomes(data: bytes, encoding: str | None = None) -> list[Raw | Dropped]:
    return list(read_dump(io.BytesIO(data), "d.xml", encoding))


def test_only_articles_come_out_and_the_rest_is_named() -> None:
    old = "<page><title>Talk:Old</title><id>5</id><revision><text>x</text></revision></page>"
    text = dump(
        page("A", "a is.", 1),
        page("B", "#REDIRECT [[A]]", 2, redirect="A"),
        page("Talk:A", "talk", 3, namespace=1),
        page("C", "#WEITERLEITUNG [[A]]", 4),
        old,
        page("D: E", "d is.", 6),
    )
    found = outcomes(text.encode())
    assert [(type(entry).__name__, entry.id) for entry in found] == [
        ("Raw", "testwiki:1"),
        ("Dropped", "testwiki:2"),
        ("Dropped", "testwiki:3"),
        ("Dropped", "testwiki:4"),
        ("Dropped", "testwiki:5"),
        ("Raw", "testwiki:6"),
    ]
    assert [entry.reason for entry in found if isinstance(entry, Dropped)] == [
        "redirect",
        "not an article",
        "redirect",
        "not an article",
    ]
    assert isinstance(found[0], Raw) and found[0].context == ("picture",)


def test_of_several_revisions_the_last_counts() -> None:
    revision = "<revision><id>{0}</id><text>text {0}</text></revision>"
    text = f"<page><title>A</title><id>7</id>{revision.format(1)}{revision.format(2)}</page>"
    (found,) = outcomes(dump(text).encode())
    assert isinstance(found, Raw) and (found.id, found.content) == ("testwiki:7", "text 2")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_a_dump_may_be_in_any_encoding(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
    (found,) = outcomes((text + dump(page("书", "书是好的。"))).encode(encoding))
    assert isinstance(found, Raw) and found.content == "书是好的。"


def test_broken_bytes_and_control_characters_do_not_end_a_dump() -> None:
    data = dump(page("A", "a\x00\x07 XX is.", 1), page("B", "b.", 2)).encode()
    first, second = outcomes(data.replace(b"XX", b"\xff"))
    assert isinstance(first, Raw) and first.content == "a \ufffd is."
    assert (first.mended.bytes, first.mended.characters) == (1, 2)
    assert isinstance(second, Raw)


def test_characters_that_are_none_do_not_end_a_dump() -> None:
    found = outcomes(dump(page("A", "a\ufffe is\uffff.", 1), page("B", "b.", 2)).encode())
    first, second = found
    assert isinstance(first, Raw) and first.content == "a\ufffd is\ufffd."
    assert first.mended.characters == 2
    assert isinstance(second, Raw) and second.content == "b."


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_dump_cut_in_the_middle_gives_what_came_before(share: float) -> None:
    data = dump(*ARTICLES).encode()
    found = outcomes(data[: int(share * len(data))])
    *articles, last = found
    assert all(isinstance(entry, Raw) for entry in articles)
    assert abs(len(articles) - share * len(ARTICLES)) < 5
    assert isinstance(last, Dropped) and last.reason == BROKEN and not last.whole
    assert "cut off" in last.detail


def test_entities_cannot_be_declared() -> None:
    bomb = '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    (found,) = outcomes((bomb + dump(page("A", "x"))).encode())
    assert isinstance(found, Dropped) and "document type" in found.detail


def test_other_xml_is_said_to_be_other() -> None:
    (found,) = outcomes(b"<rss><page><title>x</title></page></rss>")
    assert isinstance(found, Dropped) and "not a MediaWiki dump" in found.detail


def test_a_page_that_is_too_long_is_dropped_while_it_streams_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mediawiki, "LONGEST", 100_000)
    data = dump(page("Long", "x" * 20_000_000, 1), page("B", "b.", 2)).encode()
    stream = io.BytesIO(data)
    tracemalloc.start()
    found = list(read_dump(stream, "d.xml", None))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [getattr(entry, "reason", "") for entry in found] == ["too long", ""]
    assert peak < 8_000_000


PACK = {
    ".xml": lambda data: data,
    ".xml.bz2": bz2.compress,
    ".xml.gz": gzip.compress,
    ".xml.xz": lzma.compress,
    ".xml.zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_a_dump_may_be_packed_in_one_stream_or_several(
    ending: str, tmp_path: Path, run: Run
) -> None:
    data = dump(*ARTICLES).encode()
    (tmp_path / f"one{ending}").write_bytes(PACK[ending](data))
    parts = [PACK[ending](data[start : start + 1000]) for start in range(0, len(data), 1000)]
    (tmp_path / f"many{ending}").write_bytes(b"".join(parts))
    one = run(tmp_path / f"one{ending}")[1]
    many = run(tmp_path / f"many{ending}")[1]
    assert [line["text"] for line in one] == [f"Town {n} has {n} people." for n in range(1, 60)]
    assert [(line["id"], line["text"]) for line in one] == [
        (line["id"], line["text"]) for line in many
    ]


@pytest.mark.parametrize("ending", [".xml.bz2", ".xml.gz", ".xml.xz", ".xml.zst"])
@pytest.mark.parametrize("harm", ["cut", "corrupt"])
def test_a_damaged_packed_dump_is_named_and_skipped_or_stops_the_run(
    ending: str, harm: str, tmp_path: Path, run: Run
) -> None:
    text = dump(*[page(f"T{n}", f"T{n} is {n * 7919}." * 20, n) for n in range(3000)])
    data = bytearray(PACK[ending](text.encode()))
    if harm == "cut":
        del data[-len(data) // 4 :]
    else:
        middle = len(data) // 2
        data[middle : middle + 200] = bytes(byte ^ 0x5A for byte in data[middle : middle + 200])
    path = tmp_path / f"d{ending}"
    path.write_bytes(bytes(data))
    good = tmp_path / "good.xml"
    good.write_text(dump(page("Good", "Good is good.", 9)))
    result, lines = run(path, good)
    assert sum(result.unread.values()) == 1
    assert lines[-1]["text"] == "Good is good."
    (said,) = [text for texts in result.examples.values() for text in texts]
    assert said.startswith(f"d{ending}: ")
    with pytest.raises(UserError, match=f"d{ending}.*--strict"):
        run(path, good, strict=True)


@pytest.mark.slow
def test_a_real_dump_gives_its_articles(shared_data: Path, run: Run) -> None:
    result, lines = run(shared_data / "wikidump" / "enwiki-shortened.xml.bz2", workers=2)
    assert result.dropped == {"redirect": 99, "empty": 3, "not an article": 1}
    assert len(lines) == 103
    leftovers = [line for line in lines if set("{|}") & set(line["text"])]
    assert len(leftovers) <= 2
    assert not any("<ref" in line["text"] or "[[" in line["text"] for line in lines)
