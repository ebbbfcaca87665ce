"""Learning vocabularies: seconds, and memory summed over all processes, one row a run.

    python benchmarks/vocabulary.py TEXT... [--repeat 1 2] [--workers 1 2] [-- OPTIONS of vocab]

Each run is `bertkit vocab` in a process of its own. A repetition of the text is changed a little: a
fixed share of its words get a letter more, so that the table of distinct words grows as with new
text. Memory is the proportional set size (PSS) of the command and its worker processes, sampled
four times a second; the highest sum counts. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from processes import family, pss

CHANGED = 50
"""One word in so many is changed in a repetition."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--repeat", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    arguments, options = parser.parse_known_args()
    options = [option for option in options if option != "--"]
    print("| text | workers | distinct words | seconds | of these after counting | peak PSS |")
    print("|---|---|---|---|---|---|")
    for repeat in arguments.repeat:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "in").mkdir()
            size = sum(write(arguments.texts, number, folder / "in") for number in range(repeat))
            for workers in arguments.workers:
                print(row(folder, size, workers, options), flush=True)


def write(texts: list[Path], number: int, folder: Path) -> int:
    """Writes one repetition of the texts; returns its bytes."""
    size = 0
    for path in texts:
        text = path.read_text(encoding="utf-8-sig")
        if number:
            words = text.split(" ")
            for place in range(zlib.crc32(path.name.encode()) % CHANGED, len(words), CHANGED):
                words[place] += chr(96 + number)
            text = " ".join(words)
        size += (folder / f"{number}-{path.name}").write_bytes(text.encode())
    return size


def row(folder: Path, size: int, workers: int, options: list[str]) -> str:
    command = [sys.executable, "-m", "bertkit", "vocab", str(folder / "in"), "--json"]
    command += ["-o", str(folder / f"v{workers}"), "--workers", str(workers), *options]
    began = time.monotonic()
    counted, peak = began, 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        while run.poll() is None:
            processes = family(run.pid)
            peak = max(peak, sum(map(pss, processes)))
            if len(processes) > 1:
                counted = time.monotonic()  # the workers end with the counting
            time.sleep(0.25)
        seconds = time.monotonic() - began
        assert run.stdout is not None
        printed = run.stdout.read()
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    result = json.loads(printed)
    last = f"{began + seconds - counted:.1f}" if workers > 1 else ""
    return (
        f"| {size / 1e6:,.0f} MB | {workers} | {result['distinct_words']:,} | {seconds:.1f} | "
        f"{last} | {peak / (1 << 20):,.0f} MiB |"
    )


if __name__ == "__main__":
    main()
