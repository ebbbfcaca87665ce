"""How fast does `bertkit prepare` turn documents into a corpus, and how much memory does it take?

    python benchmarks/preparation.py TEXTS --vocab bert-base-uncased/vocab.txt --lower-case

The text files of the folder TEXTS are cut at blank lines into documents of about the size of an
encyclopedia's article and repeated, each time with other ids, until there is enough. Each row of
the table is one run of the command from nothing to the finished corpus: tokens a second over its
whole time; the processor time of its own process and of its workers; and the peak of the
proportional set size (PSS) summed over all its processes, sampled four times a second. From the
last size follow, with the arithmetic, time and disk for 3.3 billion words (English Wikipedia and
BooksCorpus, paper section 3.1). Last comes one line of JSON.

Text that is repeated has fewer rare words than new text of that size, which the tokenizer's memory
of words likes; the first row, which repeats nothing when TEXTS is large enough, shows how much.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from processes import family, pss

WORDS = 3_300_000_000
FILE_BYTES = 100_000_000
SAMPLING = 0.25
CORES = 32
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Row:
    """One run. Bytes, seconds, and seconds of processor time."""

    megabytes: float
    documents: int
    workers: int
    seconds: float
    tokens: int
    main_seconds: float
    worker_seconds: float
    peak_pss: int
    processes: int
    disk: int

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def documents(texts: Path, size: int) -> Iterator[str]:
    """The texts of a folder in documents of about so many characters, in order of names."""
    for path in sorted(texts.rglob("*.txt")):
        parts: list[str] = []
        for paragraph in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            parts.append(paragraph)
            if sum(map(len, parts)) >= size:
                yield "\n\n".join(parts)
                parts = []
        if parts:
            yield "\n\n".join(parts)


def write_input(texts: Path, folder: Path, size: int, document: int) -> tuple[int, int, int]:
    """Writes JSONL files with so many bytes of text; returns bytes, documents and words."""
    folder.mkdir()
    written = count = words = copy = 0
    file = None
    while written < size:
        for number, text in enumerate(documents(texts, document)):
            if file is None or file.tell() > FILE_BYTES:
                if file is not None:
                    file.close()
                file = open(folder / f"{written:013d}.jsonl", "w", encoding="utf-8")  # noqa: SIM115
            file.write(json.dumps({"id": f"{copy}-{number}", "text": text}) + "\n")
            written += len(text.encode())
            count += 1
            words += len(text.split())
            if written >= size:
                break
        if not written:
            sys.exit(f"{texts} has no text files; give a folder of .txt files")
        copy += 1
    assert file is not None
    file.close()
    return written, count, words


def processor_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(command: list[str], output: Path, row: dict[str, int | float]) -> Row:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = processes = 0
    used: dict[int, float] = {}
    try:
        while process.poll() is None:
            members = family(process.pid)
            total = sum(map(pss, members))
            peak, processes = max(peak, total), max(processes, len(members))
            for one in members:
                used[one] = max(used.get(one, 0.0), processor_seconds(one))
            time.sleep(SAMPLING)
    finally:
        process.kill()  # harmless when it has ended
    seconds = time.perf_counter() - started
    assert process.stdout is not None
    printed = process.stdout.read()
    if process.returncode:
        sys.exit(f"the run failed with exit code {process.returncode}")
    splits = json.loads(printed)["splits"].values()
    main = used.pop(process.pid, 0.0)
    return Row(
        **row,  # type: ignore[arg-type]
        seconds=seconds,
        tokens=sum(split["tokens"] for split in splits),
        main_seconds=main,
        worker_seconds=sum(used.values()),
        peak_pss=peak,
        processes=processes,
        disk=sum(path.stat().st_size for path in output.rglob("*") if path.is_file()),
    )


def project(row: Row, words: int) -> list[str]:
    """Time and disk for WORDS words, with the arithmetic."""
    scale = WORDS / words
    tokens, disk = row.tokens * scale, row.disk * scale
    text = row.megabytes * scale / 1000
    here = row.seconds * scale / 3600
    main, workers = row.main_seconds * scale / 3600, row.worker_seconds * scale / 3600
    return [
        f"{WORDS / 1e9:.1f} billion words, from the run of {row.megabytes:,.0f} MB "
        f"({words / 1e6:,.1f} million words) with {row.workers} workers:",
        f"  factor    {WORDS / 1e6:,.0f} / {words / 1e6:,.1f} = {scale:,.1f}",
        f"  text      {row.megabytes:,.0f} MB x {scale:,.1f} = {text:,.1f} GB",
        f"  tokens    {row.tokens / 1e6:,.1f} million x {scale:,.1f} = {tokens / 1e9:,.2f} billion",
        f"  disk      {row.disk / 1e6:,.0f} MB x {scale:,.1f} = {disk / 1e9:,.1f} GB of corpus "
        f"({row.disk / row.tokens:.2f} bytes a token), beside the text",
        f"  here      {row.seconds:,.0f} s x {scale:,.1f} = {here:,.2f} hours "
        f"with {row.workers} workers",
        f"  {CORES} cores  own process {row.main_seconds:,.1f} s x {scale:,.1f} = {main:,.2f} h, "
        f"which no worker shortens; workers {row.worker_seconds:,.1f} s x {scale:,.1f} / {CORES} = "
        f"{workers / CORES:,.2f} h; together at most {main + workers / CORES:,.2f} hours",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", type=Path, help="folder of .txt files")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--lower-case", action=argparse.BooleanOptionalAction)
    parser.add_argument("--sizes", type=float, nargs="+", default=[10, 100, 1000], help="in MB")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--speed-size", type=float, help="MB that all --workers run; default: 100")
    parser.add_argument("--document", type=int, default=4000, help="characters of a document")
    parser.add_argument("--folder", help="where to put the temporary folder")
    arguments = parser.parse_args()
    sizes = sorted(arguments.sizes)
    most = max(arguments.workers)
    speed_size = arguments.speed_size or (100 if 100 in sizes else sizes[-1])
    rows: list[Row] = []
    words = 0
    print(
        "      MB  documents  workers  seconds   tokens/s     MB/s  "
        "main s  workers s  peak PSS MiB  processes"
    )
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            source, output = Path(folder, "texts"), Path(folder, "corpus")
            written, count, words = write_input(
                arguments.texts, source, int(size * 1e6), arguments.document
            )
            for workers in sorted(arguments.workers) if size == speed_size else [most]:
                command = [sys.executable, "-m", "bertkit", "prepare", str(source), "--json"]
                command += ["--vocab", arguments.vocab, "-o", str(output), "--quiet"]
                command += ["--workers", str(workers)]
                if arguments.lower_case is not None:
                    command.append("--lower-case" if arguments.lower_case else "--no-lower-case")
                facts = {"megabytes": written / 1e6, "documents": count, "workers": workers}
                row = measure(command, output, facts)  # type: ignore[arg-type]
                rows.append(row)
                print(
                    f"{row.megabytes:8,.0f}  {row.documents:9,}  {row.workers:7}  "
                    f"{row.seconds:7.1f}  {row.speed:9,.0f}  {row.megabytes / row.seconds:7.2f}  "
                    f"{row.main_seconds:6.1f}  {row.worker_seconds:9.1f}  "
                    f"{row.peak_pss / 2**20:12,.0f}  {row.processes:9}",
                    flush=True,
                )
    print("\n" + "\n".join(project(rows[-1], words)))
    print(json.dumps({"rows": [asdict(row) | {"tokens_per_second": row.speed} for row in rows]}))


if __name__ == "__main__":
    main()
