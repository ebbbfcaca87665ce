"""Reading documents: every kind of input, stable identities, and one clear line for bad input."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from bertkit.errors import UserError
from bertkit.text.documents import Document, read_documents


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pairs(stream: object) -> list[tuple[str, str]]:
    return [(document.id, document.text) for document in stream]  # type: ignore[attr-defined]


def test_a_single_file_is_divided_at_blank_lines_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.txt", "one\ntwo\n\n \t\nthree\n")
    assert pairs(read_documents(path)) == [("a.txt:1", "one\ntwo\n"), ("a.txt:5", "three\n")]
    assert "blank lines divide it" in capsys.readouterr().err
    list(read_documents(path, quiet=True))
    assert capsys.readouterr().err == ""


def test_each_of_several_files_is_a_document(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, f"text\n\n{name}") for name in ("b.txt", "a.txt")]
    expected = [("a.txt", "text\n\na.txt"), ("b.txt", "text\n\nb.txt")]
    assert pairs(read_documents(paths)) == expected
    assert pairs(read_documents(paths[::-1])) == expected
    assert pairs(read_documents([*paths, tmp_path])) == expected  # each file once


def test_a_folder_is_read_with_its_folders_in_path_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("z.txt", "b/c.TXT", "b/a.jsonl", ".hidden.txt", ".git/x.txt", "p.pdf", "README"):
        write(tmp_path / "in" / name, '{"text": "x"}')
    assert [document.id for document in read_documents(tmp_path / "in")] == [
        "b/a.jsonl:1",
        "b/c.TXT",
        "z.txt",
    ]
    assert "2 files that are not text or JSONL" in capsys.readouterr().err


def test_a_document_can_be_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\n\n two \nthree")
    assert pairs(read_documents(path, "line")) == [
        ("a.txt:1", "one"),
        ("a.txt:3", " two "),
        ("a.txt:4", "three"),
    ]


@pytest.mark.parametrize("mode", ["file", "blank-line", "line"])
def test_bom_and_carriage_returns_are_no_part_of_the_text(tmp_path: Path, mode: str) -> None:
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfein\r\nzwei\rdrei \xe4\xb8\xad\xf0\x9f\x98\x80")
    text = "".join(document.text + "\n" for document in read_documents(path, mode))
    assert text == "ein\nzwei\ndrei 中😀\n"


def test_files_of_one_name_are_told_apart_whatever_their_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, name) for name in ("a/x.txt", "b/x.txt", "b/y.txt")]
    expected = ["a/x.txt", "b/x.txt", "y.txt"]
    assert [document.id for document in read_documents(paths)] == expected
    assert [document.id for document in read_documents(paths[::-1])] == expected


def test_a_file_name_that_is_not_utf8_still_gives_an_identity(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff.txt")
    try:
        Path(os.fsdecode(path)).write_text("text")
    except OSError:
        pytest.skip("this file system refuses such names")
    [document] = read_documents(tmp_path, "file")
    assert document.id.encode("utf-8") == rb"\udcff.txt"


def test_jsonl_gives_one_document_a_line(tmp_path: Path) -> None:
    lines = [
        {"text": "one\r\ntwo", "id": "first"},
        {"text": "three", "id": 7},
        {"text": "  \n"},
        {"text": "中😀", "other": None},
    ]
    path = write(
        tmp_path / "a.jsonl", "\ufeff" + "\n\n".join(map(json.dumps, lines)).replace("\n", "\r\n")
    )
    assert list(read_documents(path)) == [
        Document("first", "one\ntwo", named=True),
        Document("7", "three", named=True),
        Document("a.jsonl:7", "中😀"),
    ]


def test_another_field_can_hold_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json-lines", '{"body": "hello"}\n')
    assert [document.text for document in read_documents(path, text_field="body")] == ["hello"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "x"', "a.jsonl, line 3: not JSON"),
        ("[1, 2]", "line 3: a JSON list where an object"),
        ('"text"', "line 3: a JSON text where"),
        ('{"body": "x", "n": 1}', r"no field 'text' \(it has: body, n\).*--text-field"),
        ('{"text": ["x"]}', "field 'text' is a list"),
        ('{"text": null}', "field 'text' is a null"),
        ('{"text": "x", "id": [1]}', 'field "id" is a list'),
        ('{"text": "x \\ud83d"}', "half a surrogate pair.*--errors replace"),
        ("[" * 100_000, "line 3: not readable as JSON"),
        ('{"text": "x", "id": ' + "9" * 5000 + "}", "line 3: not readable as JSON"),
    ],
)
def test_a_bad_jsonl_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n\n' + line + "\n")
    with pytest.raises(UserError, match=message) as caught:
        list(read_documents(path))
    assert "\n" not in str(caught.value)


def test_half_a_surrogate_pair_can_be_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "x \\ud83d"}\n')
    assert [document.text for document in read_documents(path, errors="replace")] == ["x \ufffd"]


@pytest.mark.parametrize("mode", ["file", "blank-line", "line"])
def test_broken_utf8_is_named_by_its_byte(tmp_path: Path, mode: str) -> None:
    content = ("中文\n\n" * 20_000).encode()
    path = write(tmp_path / "a.txt", content + b"ab\xe4\xb8 cd\n")
    with pytest.raises(UserError, match=rf"byte {len(content) + 2} \(0xe4, line 40001\).*replace"):
        list(read_documents(path, mode))
    texts = [document.text for document in read_documents(path, mode, errors="replace")]
    assert "ab\ufffd cd" in texts[-1]


def test_utf16_is_recognized(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text".encode("utf-16"))
    with pytest.raises(UserError, match="UTF-16"):
        list(read_documents(path))


@pytest.mark.parametrize("content", ["", "\n", "\ufeff", " \n\t\n\u3000"])
def test_nothing_but_blanks_is_no_document(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "a.txt", content)
    for mode in ("auto", "file", "blank-line", "line"):
        with pytest.raises(UserError, match="holds no document"):
            list(read_documents(path, mode))
    write(tmp_path / "b.txt", content)
    with pytest.raises(UserError, match="all 2 files are empty"):
        list(read_documents(tmp_path))
    with pytest.raises(UserError, match="holds no document"):
        list(read_documents(write(tmp_path / "c.jsonl", content)))


def test_an_empty_file_in_a_folder_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.txt", "text")
    empty = write(tmp_path / "b.txt", "")
    assert [document.id for document in read_documents(tmp_path)] == ["a.txt"]
    assert "1 empty or blank file" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"b\.txt holds no document"):
        list(read_documents([tmp_path, empty]))


def test_missing_inputs_are_refused_at_once(tmp_path: Path) -> None:
    write(tmp_path / "folder" / "a.pdf", "x")
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    for path, message in (
        (tmp_path / "none.txt", "there is no file or folder"),
        (tmp_path / "folder", "has no document"),
        (fifo, "neither a file nor a folder"),
        ([], "no input"),
    ):
        with pytest.raises(UserError, match=message):
            read_documents(path)  # not even iterated
    with pytest.raises(UserError, match="choose one of auto, file"):
        read_documents(tmp_path, "paragraph")
    with pytest.raises(UserError, match="strict or replace"):
        read_documents(tmp_path, errors="ignore")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    path.chmod(0)
    with pytest.raises(UserError, match=r"cannot read .*a\.txt: Permission denied"):
        list(read_documents(path))


def test_memory_stays_flat(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "some words of a text\n\n" * 40_000)
    tracemalloc.start()
    count = sum(1 for _ in read_documents(path, quiet=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 400_000


PACKS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("ending", [*(f".jsonl{one}" for one in PACKS), ".NDJSON.GZ"])
def test_packed_jsonl_is_read_as_jsonl(ending: str, tmp_path: Path) -> None:
    pack = PACKS[Path(ending.lower()).suffix]
    line = json.dumps({"id": "x", "text": "中文 😀"}, ensure_ascii=False).encode() + b"\n"
    path = write(tmp_path / "in" / f"a{ending}", pack(line) + pack(line * 2))  # two streams
    expected = [("x", "中文 😀")] * 3
    assert pairs(read_documents(path)) == expected
    assert pairs(read_documents(tmp_path / "in")) == expected


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_text_is_read_unpacked(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", pack("一个文本。\n".encode()))
    assert [text for _, text in pairs(read_documents(path))] == ["一个文本。\n"]
    write(path, pack(b"a text \xff"))
    with pytest.raises(UserError, match="not UTF-8 at byte 7"):
        list(read_documents(path))


def test_a_zstandard_file_may_begin_with_a_frame_to_skip(tmp_path: Path) -> None:
    line = PACKS[".zst"](b'{"id": "x", "text": "a"}\n')
    skipped = bytes.fromhex("5a2a4d18 02000000 ffff")
    path = write(tmp_path / "a.jsonl.zst", skipped + line + skipped + line)
    assert pairs(read_documents(path)) == [("x", "a")] * 2


@pytest.mark.parametrize("order", [("x.txt", "z.txt"), ("z.txt", "x.txt")])
def test_of_links_to_one_file_the_first_name_counts(
    order: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in" / "x.txt", "one")
    (tmp_path / "in" / "z.txt").symlink_to("x.txt")
    walked = [(str(tmp_path / "in"), [], list(order))]  # file systems list in any order
    monkeypatch.setattr("bertkit.text.documents.os.walk", lambda *_, **__: iter(walked))
    found = pairs(read_documents(tmp_path / "in", documents="file"))
    assert found == [("x.txt", "one")]


@pytest.mark.parametrize("ending", [f".jsonl{one}" for one in PACKS])
def test_damaged_packed_jsonl_is_one_clear_line(ending: str, tmp_path: Path) -> None:
    pack = PACKS[Path(ending).suffix]
    data = pack(b"".join(b'{"text": "line %d"}\n' % n for n in range(5000)))
    path = write(tmp_path / f"a{ending}", data[:-50])
    with pytest.raises(UserError, match="ends too early"):
        list(read_documents(path))
    broken = bytearray(data)
    broken[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    write(path, bytes(broken))
    with pytest.raises(UserError, match=r"is damaged|not UTF-8|not JSON"):
        list(read_documents(path))
    write(path, pack(b'{"text": "\xff"}\n'))
    with pytest.raises(UserError, match="not UTF-8 at byte 10"):
        list(read_documents(path))
