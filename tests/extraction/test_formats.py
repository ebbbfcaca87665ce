"""HTML, EPUB, JSONL, CSV, TSV, Parquet and hub data sets become documents."""

from __future__ import annotations

import json
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from bertkit.errors import UserError
from bertkit.extraction.hub import parse_name

from .conftest import Run, dump, page, write_epub

PARAGRAPH = "The town lies on a river, and people have lived there for more than a thousand years. "
PAGE = f"""<html><head><meta charset="{{0}}"><title>A &amp; B</title>
<script>var x = 1;</script></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/x">Menu entry</a></li></ul></nav>
<article><h1>The town</h1><p>{PARAGRAPH * 3}</p>
<p>Caf\u00e9: {PARAGRAPH * 2}</p></article>
<footer>Copyright notice, all rights</footer></body></html>"""


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
def test_html_gives_its_main_text(encoding: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.html").write_bytes(PAGE.format(encoding).encode(encoding))
    (line,) = run(tmp_path / "a.html")[1]
    assert line["title"] == "A & B" and line["id"] == line["source"] == "a.html"
    assert "Café: The town lies" in line["text"] and line["text"].count("\n\n") in (1, 2)
    assert "Menu entry" not in line["text"] and "var x" not in line["text"]


def test_an_epub_gives_its_chapters_in_order(tmp_path: Path, run: Run) -> None:
    pages = {
        "b.xhtml": '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/'
        'xhtml"><body><h1>One</h1><p>It <i>was</i>\nso.<a epub:type="noteref">1</a> Yes.</p>'
        "<table><tr><td>cell</td></tr></table>tail</body></html>",
        "a.xhtml": "<html><body><div>Zwei<br/>é&nbsp;中文</div><p></p></body></html>",
    }
    (line,) = run(write_epub(tmp_path / "x.epub", pages))[1]
    assert line["title"] == "A Book"
    assert line["text"] == "One\n\nIt was so. Yes.\n\ntail\n\nZwei\n\né 中文"


def test_broken_bytes_of_a_book_are_counted(tmp_path: Path, run: Run) -> None:
    page = b"<html><body><p>" + "这是一本书。".encode() * 20 + b"\xff</p></body></html>"
    path = write_epub(tmp_path / "x.epub", {"a.xhtml": page})
    result, (line,) = run(path)
    assert line["text"].endswith("\ufffd")
    assert result.mended == {"broken bytes": 1}
    with pytest.raises(UserError, match=r"x\.epub"):
        run(path, strict=True)


def test_a_broken_book_is_skipped_and_named(tmp_path: Path, run: Run) -> None:
    page = {"a.xhtml": "<html><body><p>Text is.</p></body></html>"}
    good = write_epub(tmp_path / "good.epub", page)
    (tmp_path / "cut.epub").write_bytes(good.read_bytes()[:-200])
    data = good.read_bytes()
    (tmp_path / "corrupt.epub").write_bytes(data.replace(b"PK\x01\x02", b"PK\x07\x07", 1))
    with zipfile.ZipFile(tmp_path / "zip.epub", "w") as other:
        other.writestr("x.txt", "x")
    cipher = '<e><CipherReference URI="OEBPS/a.xhtml"/></e>'
    write_epub(tmp_path / "drm.epub", page, {"META-INF/encryption.xml": cipher})
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]><container><rootfile full-path="&a;"/></container>'
    with zipfile.ZipFile(tmp_path / "bomb.epub", "w") as other:
        other.writestr("META-INF/container.xml", bomb)
    result, lines = run(tmp_path)
    assert [line["id"] for line in lines] == ["good.epub"]
    assert result.dropped == {"broken": 5}
    said = "\n".join(result.examples["broken"])
    assert "encrypted" in said and "not an EPUB" in said and "no whole zip" in said


def test_jsonl_keeps_identities_and_skips_broken_lines(tmp_path: Path, run: Run) -> None:
    rows = [
        json.dumps({"id": "x", "title": "T", "body": "One\ntwo\x00."}),
        "{broken",
        json.dumps({"id": 7, "body": "Half \ud800 pair."}),
        json.dumps({"other": 1}),
        json.dumps({"body": 3}),
        json.dumps({"body": None}),
        "",
        json.dumps({"body": "中文 😀"}, ensure_ascii=False),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
    result, lines = run(tmp_path / "a.jsonl", text_field="body")
    assert [(line["id"], line["title"], line["text"]) for line in lines] == [
        ("x", "T", "One\n\ntwo."),
        ("7", "", "Half \ufffd pair."),
        ("a.jsonl:8", "", "中文 😀"),
    ]
    assert result.dropped == {"broken": 3, "empty": 1}
    assert result.mended == {"broken bytes": 1, "control characters": 1}
    with pytest.raises(UserError, match=r"a.jsonl:2: not JSON.*--strict"):
        run(tmp_path / "a.jsonl", text_field="body", strict=True)
    with pytest.raises(UserError, match=r"no document was kept.*no field 'text'"):
        run(tmp_path / "a.jsonl")


def test_csv_has_quotes_and_tsv_has_none(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_bytes(
        '\ufefftitle;text\nA;"He said ""no"";\nand went."\nB;too;many\nC;is\n'.encode()
    )
    (tmp_path / "b.tsv").write_bytes(b'text\tlabel\n"An open quote\t1\nis it\t0\n')
    result, lines = run(tmp_path / "a.csv", tmp_path / "b.tsv")
    assert [(line["id"], line["title"], line["text"]) for line in lines] == [
        ("a.csv:1", "A", 'He said "no";\n\nand went.'),
        ("a.csv:3", "C", "is"),
        ("b.tsv:1", "", '"An open quote'),
        ("b.tsv:2", "", "is it"),
    ]
    assert result.dropped == {"broken": 1}
    with pytest.raises(UserError, match=r"a.csv: no column 'body' \(it has: title, text\)"):
        run(tmp_path / "a.csv", text_field="body")


def test_an_unclosed_quote_is_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text('text\ngood one\n"no end\nmore\n')
    result, lines = run(tmp_path / "a.csv")
    assert [line["text"] for line in lines] == ["good one"]
    assert "row 2: a quote opens and nothing closes it" in result.examples["broken"][0]
    assert result.unread == {"broken": 1}  # no document, but the rest of a file


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_wide_text_without_a_mark_is_read_row_by_row(name: str, tmp_path: Path, run: Run) -> None:
    rows = '{"text": "Some English."}\n' if name == "a.jsonl" else "Some English.\n"
    text = ("text\n" if name == "a.csv" else "") + rows * 3
    (tmp_path / name).write_bytes(text.encode("utf-16-le"))
    for encoding in (None, "utf-16"):
        lines = run(tmp_path / name, encoding=encoding)[1]
        assert [line["text"] for line in lines] == ["Some English."] * 3


def write_parquet(path: Path, rows: int = 500) -> Path:
    table = pyarrow.table(
        {"text": [f"Row {n} is here." for n in range(rows)], "id": list(range(rows))}
    )
    pyarrow.parquet.write_table(table, path, row_group_size=50)
    return path


def test_parquet_gives_its_rows(tmp_path: Path, run: Run) -> None:
    lines = run(write_parquet(tmp_path / "a.parquet"))[1]
    assert len(lines) == 500
    assert lines[77] == {"id": "77", "title": "", "text": "Row 77 is here.", "source": "a.parquet"}
    with pytest.raises(UserError, match=r"a.parquet: no column 'body'"):
        run(tmp_path / "a.parquet", text_field="body")


def test_damaged_parquet_is_named(tmp_path: Path, run: Run) -> None:
    data = write_parquet(tmp_path / "a.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    middle = len(data) // 2
    harmed = data[:middle] + bytes(300) + data[middle + 300 :]
    (tmp_path / "harmed.parquet").write_bytes(harmed)
    result, lines = run(tmp_path)
    assert len(lines) >= 500
    assert result.unread["broken"] == 2
    assert all("Parquet is damaged" in said for said in result.examples["broken"])


# ---- the hub ---------------------------------------------------------------------------------


def test_a_hub_name_has_a_configuration_and_a_split() -> None:
    assert parse_name("hub:a/b") == ("a/b", None, "train")
    assert parse_name("hub:a/b:c") == ("a/b", "c", "train")
    assert parse_name("hub:a/b:c:test") == ("a/b", "c", "test")
    assert parse_name("hub:a/b::test") == ("a/b", None, "test")
    for name in ("hub:", "hub:a:b:c:d"):
        with pytest.raises(UserError, match="is not hub:NAME"):
            parse_name(name)


def test_a_hub_data_set_is_streamed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load(*arguments: Any, **options: Any) -> Any:
        asked.append((arguments, options))
        return iter([{"text": "One."}, {"text": "Two.", "id": "b"}])

    stub = types.ModuleType("datasets")
    stub.load_dataset = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", stub)
    lines = run("hub:org/set:en:test")[1]
    assert asked == [(("org/set", "en"), {"split": "test", "streaming": True})]
    assert [(line["id"], line["text"]) for line in lines] == [
        ("hub:org/set:en:test:1", "One."),
        ("b", "Two."),
    ]
    with pytest.raises(UserError, match=r"hub:org/set: no column 'body'"):
        run("hub:org/set", text_field="body")

    def fail(*arguments: Any, **options: Any) -> Any:
        raise ConnectionError("no\nroute")

    stub.load_dataset = fail  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"cannot load hub:org/set: no route; check the name"):
        run("hub:org/set")


def test_without_datasets_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[hub\]"'):
        run("hub:org/set")


@pytest.mark.slow
def test_a_local_data_set_is_read_with_datasets(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"text": "One."}\n{"text": "Two."}\n')
    assert [line["text"] for line in run(f"hub:{folder}")[1]] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("name", "package", "content"),
    [
        ("a.html", "trafilatura", b"<p>x</p>"),
        ("a.xml", "mwparserfromhell", dump(page("A", "A is.")).encode()),
        ("a.parquet", "pyarrow", b"PAR1"),
    ],
)
def test_a_missing_package_is_the_users_to_install(
    name: str,
    package: str,
    content: bytes,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r'pip install "bertkit\[extract\]"'):
        run(tmp_path / name)
