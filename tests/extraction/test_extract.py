"""The run: the same bytes for any number of workers, a report, and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertkit.cli import main
from bertkit.errors import UserError
from bertkit.extraction import extract as module
from bertkit.extraction.config import ExtractConfig
from bertkit.extraction.extract import extract
from bertkit.text.documents import read_documents

from .conftest import ARTICLES, Run, dump, page, read_jsonl, write_epub


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with something of everything, also broken."""
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "d.xml").write_text(dump(*ARTICLES, page("Talk:X", "x", 99, namespace=1)))
    (folder / "a.txt").write_text("A text is here.\n\nAnd there.")
    (folder / "sub" / "a.txt").write_bytes("书是好的。".encode("gb18030") * 20)
    (folder / "bin.txt").write_bytes(bytes(range(256)) * 9)
    (folder / "t.jsonl").write_text(
        '{"text": "One is."}\n{"text": "A text is here.  And there."}\n'
    )
    write_epub(folder / "b.epub", {"a.xhtml": "<html><body><p>A book is.</p></body></html>"})
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_the_bytes_are_the_same_for_any_number_of_workers(
    ending: str, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, reports = set(), []
    for workers, chunk in ((1, 1 << 18), (2, 500), (3, 1)):
        monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
        output = tmp_path / str(workers) / f"docs{ending}"
        result = extract(
            ExtractConfig(
                [str(sources)], str(output), workers=workers, deduplicate="near", quiet=True
            )
        )
        contents.add(output.read_bytes())
        reports.append((result.dropped, result.examples, result.inputs, result.mended))
    assert len(contents) == 1
    assert reports[0] == reports[1] == reports[2]
    lines = read_jsonl(output)
    assert len(lines) == 63
    assert [line["id"] for line in lines[:3]] == ["a.txt", "b.epub", "testwiki:1"]
    assert lines[-2]["id"] == "sub/a.txt" and lines[-1]["id"] == "t.jsonl:1"
    assert result.dropped == {"binary": 1, "not an article": 1, "exact duplicate": 1}


def test_what_extract_writes_is_read_as_documents(sources: Path, tmp_path: Path, run: Run) -> None:
    for ending in (".jsonl", ".jsonl.gz", ".jsonl.zst"):
        output = tmp_path / "out" / f"docs{ending}"
        lines = run(sources, output=str(output))[1]
        documents = list(read_documents(output, quiet=True))
        assert [document.text for document in documents] == [line["text"] for line in lines]
        assert all(document.named for document in documents)
        output.unlink()


def test_the_report_lies_beside_the_documents(sources: Path, tmp_path: Path, run: Run) -> None:
    result, lines = run(sources, output=str(tmp_path / "out" / "docs.jsonl.zst"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "docs.extract.json",
        "docs.extract.yaml",
        "docs.jsonl.zst",
    ]
    report = json.loads((tmp_path / "out" / "docs.extract.json").read_text())
    assert report["documents"] == len(lines) == result.documents
    assert report["inputs"]["d.xml"] == {"kept": 59, "dropped": 1}
    assert report["examples"]["not an article"] == ["testwiki:99: namespace 1: Talk:X"]
    assert "not an article          1  testwiki:99" in str(result)


def test_inputs_keep_their_order_and_each_file_is_read_once(tmp_path: Path, run: Run) -> None:
    for name in ("b/x.txt", "a/x.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"In {name} it is.")
    lines = run(tmp_path / "b" / "x.txt", tmp_path / "a", tmp_path / "a" / "x.txt")[1]
    assert [line["source"] for line in lines] == ["b/x.txt", "a/x.txt"]


@pytest.mark.parametrize(
    ("documents", "ids"),
    [
        ("file", ["a.txt"]),
        ("blank-line", ["a.txt:1", "a.txt:4"]),
        ("line", ["a.txt:1", "a.txt:2", "a.txt:4"]),
    ],
)
def test_a_text_file_may_hold_many_documents(
    documents: str, ids: list[str], tmp_path: Path, run: Run
) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeff一。\r\n二。\r\n\r\n三。".encode("utf-16"))
    lines = run(tmp_path / "a.txt", documents=documents)[1]
    assert [line["id"] for line in lines] == ids
    assert "".join(line["text"] for line in lines).replace("\n", "") == "一。二。三。"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"output": "x.txt"}, "must end in .jsonl"),
        ({"encoding": "utf-9"}, "no encoding 'utf-9'"),
        ({"language": ["English"]}, "language is 'English'"),
        ({"near": 0.0}, "near is 0.0"),
        ({"near": 0.5, "deduplicate": "exact"}, "--near is for --deduplicate near"),
        ({"min_characters": -1}, "min_characters is -1"),
    ],
)
def test_wrong_options_are_one_line(
    options: dict[str, object], message: str, sources: Path, run: Run
) -> None:
    with pytest.raises(UserError, match=message):
        run(sources, **options)


def test_wrong_inputs_are_one_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "talk.xml").write_text(dump(page("Talk:X", "x", 1, namespace=1)))
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(UserError, match="no file or folder"):
        run(tmp_path / "missing")
    with pytest.raises(UserError, match="has no file that could be read"):
        run(tmp_path / "empty")
    with pytest.raises(UserError, match=r"no document was kept: 1 not an article; .* namespace 1"):
        run(tmp_path / "talk.xml")
    with pytest.raises(UserError, match="no document was kept: 1 empty"):
        run(tmp_path / "empty.txt")
    (tmp_path / "in.jsonl").write_text('{"text": "a text"}\n')
    with pytest.raises(UserError, match="is the input too, which would be lost"):
        extract(ExtractConfig([str(tmp_path / "in.jsonl")], str(tmp_path / "in.jsonl")))
    with pytest.raises(UserError, match="lies inside the input folder"):
        run(tmp_path, output=str(tmp_path / "docs.jsonl"))
    assert not list(tmp_path.glob("out/*"))


def test_what_is_broken_is_counted_where_it_is(tmp_path: Path) -> None:
    """Also beside other documents, and whoever reads ahead."""
    folder = tmp_path / "in"
    folder.mkdir()
    long = "These are words of a text that is long enough. " * 4
    (folder / "a.txt").write_bytes(long.encode() + b"\xff")
    good = [json.dumps({"id": str(n), "text": long}).encode() for n in range(30)]
    broken = json.dumps({"id": "x", "text": long + "!"}).encode().replace(b"!", b"\xff\xfe!")
    (folder / "b.jsonl").write_bytes(b"\n".join([*good, broken, *good[::-1]]))
    for workers in (1, 2):
        out = str(tmp_path / f"{workers}.jsonl")
        config = ExtractConfig([str(folder)], out, workers=workers, encoding="utf-8", quiet=True)
        result = extract(config)
        assert result.mended == {"broken bytes": 2}
        shown = [one.partition(":")[0] for one in result.examples["broken bytes"]]
        assert shown == ["a.txt", "x"]
    texts = {one["id"]: one["text"] for one in read_jsonl(tmp_path / "1.jsonl")}
    assert texts["x"].endswith("\ufffd\ufffd!")


def test_rows_in_another_encoding_than_the_files_beginning_are_no_text(tmp_path: Path) -> None:
    row = "这是一本写得很好的书，我很喜欢。"
    english = [f"{n},This is a row of English words\n" for n in range(3000)]
    table = tmp_path / "a.csv"
    table.write_bytes(b"id,text\n" + "".join(english).encode())
    with table.open("ab") as file:
        file.write("".join(f"zh{n},{row}\n" for n in range(5)).encode("gb18030"))
    result = extract(ExtractConfig([str(table)], str(tmp_path / "a.jsonl"), quiet=True))
    assert (result.documents, result.dropped, result.mended) == (3000, {"binary": 5}, {})
    assert "--encoding can name another" in result.examples["binary"][0]
    config = ExtractConfig([str(table)], str(tmp_path / "b.jsonl"), encoding="gb18030", quiet=True)
    assert extract(config).documents == 3005
    assert read_jsonl(tmp_path / "b.jsonl")[-1]["text"] == row


def test_half_a_surrogate_pair_anywhere_loses_nothing(tmp_path: Path) -> None:
    lines = ['{"id": "a", "text": "A text is here."}', '{"id": "\\ud800x", "text": ""}']
    lines += ['{"id": "c", "title": "\\ud800", "\\ud800": 1}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out.jsonl"
    result = extract(ExtractConfig([str(tmp_path / "in.jsonl")], str(out), quiet=True))
    assert result.dropped == {"empty": 1, "broken": 1}
    assert json.loads((tmp_path / "out.extract.json").read_text())["examples"]["empty"] == ["?x"]


def test_a_broken_header_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text('id,"te"xt,text\n1,2,3\n')
    (tmp_path / "in" / "b.csv").write_text("id,text\n1,A text is here.\n")
    out = str(tmp_path / "out.jsonl")
    result = extract(ExtractConfig([str(tmp_path / "in")], out, quiet=True))
    assert (result.documents, result.unread) == (1, {"broken": 1})
    assert "the header: ',' expected after" in result.examples["broken"][0]


def test_strict_stops_at_a_binary_file(sources: Path, run: Run) -> None:
    with pytest.raises(UserError, match=r"bin.txt: .*; mend it, or leave out --strict"):
        run(sources, strict=True)


def test_the_command_prints_the_table(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "docs.jsonl")
    assert main(["extract", str(sources), "-o", output, "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert "64 of 66 documents kept" in out and "not an article" in out
    assert "skipped bin.txt" in err and "passed over 1 files" in err
    assert main(["extract", str(sources), "-o", output, "--strict", "--quiet"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_leaves_nothing(sign: int, tmp_path: Path) -> None:
    pages = (page(f"T{n}", f"T{n} is [[here]]. " * 200, n) for n in range(4000))
    (tmp_path / "d.xml").write_text(dump(*pages))
    output = tmp_path / "out" / "docs.jsonl.zst"
    command = [sys.executable, "-m", "bertkit", "extract", str(tmp_path / "d.xml")]
    process = subprocess.Popen(
        [*command, "-o", str(output), "--workers", "2"],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not list(tmp_path.glob("out/.*")):
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(1)
    os.kill(process.pid, sign)
    assert process.wait(20) == 128 + sign
    assert not list(output.parent.iterdir())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    script = (
        "import sys, resource; from bertkit.extraction.config import ExtractConfig; "
        "from bertkit.extraction.extract import extract; "
        "extract(ExtractConfig([sys.argv[1]], sys.argv[2], workers=1, quiet=True)); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    peaks = []
    for megabytes in (2, 20):
        path = tmp_path / f"{megabytes}.jsonl"
        with open(path, "w") as file:
            for number in range(megabytes * 1000):
                file.write(json.dumps({"id": number, "text": "It is so. " * 100}) + "\n")
        done = subprocess.run(
            [sys.executable, "-c", script, str(path), str(tmp_path / "out.jsonl")],
            capture_output=True,
            text=True,
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 20, peaks
