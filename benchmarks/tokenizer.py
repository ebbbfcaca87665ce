"""Speed of the tokenizer: bertkit beside the `tokenizers` library's BERT preset, on one thread.

    python benchmarks/tokenizer.py --vocabulary VOCAB.TXT NOVELS_FOLDER
    python benchmarks/tokenizer.py --vocabulary ZH.TXT CHINESE.TXT --unit line

Both read the same texts with the same vocabulary, lower-cased; the library's tokenizer is the
tokenizer.json that bertkit saves, called in batches of 1,000 texts, which suits it best: without
offsets by `encode_batch_fast`, with offsets by `encode_batch`. bertkit is called a text at a time.
"cold" starts with nothing remembered, in a process of its own; "warm" is a second pass. Each side
runs in a new process, in turns (A B A B ...), and CPU seconds are counted, so that a busy machine
slows both alike. Printed are one table (medians; of the ratios also the lowest and highest of the
rounds) and one line of JSON. The rates count bytes of UTF-8.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH = 1000
CHECKED = 2000
"""Texts, evenly spread, whose tokens are compared."""

# what is measured: of bertkit, of the library, and the least ratio that the project promises
COMPARISONS = {
    "ids, cold": ("ids_cold", "ids", 2.0),
    "ids, warm": ("ids_warm", "ids", 5.0),
    "with offsets, cold": ("offsets_cold", "offsets", 1.0),
    "with offsets, warm": ("offsets_warm", "offsets", 1.0),
}
COMPARISONS_ZH = {name: (ours, peer, 1.0) for name, (ours, peer, _) in COMPARISONS.items()}


def read_texts(path: Path, unit: str, megabytes: float) -> list[str]:
    """Paragraphs or lines of a file, or of a folder's .txt files in order, up to a size."""
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    cut = re.compile(r"\n\s*\n" if unit == "paragraph" else r"\n")
    texts: list[str] = []
    size = 0
    for file in files:
        for text in cut.split(file.read_text(encoding="utf-8-sig")):
            if not text.strip():
                continue
            size += len(text.encode())
            if size > megabytes * 1e6:
                return texts
            texts.append(text)
    if not texts:
        raise SystemExit(f"no text in {path}; give a .txt file or a folder of them")
    return texts


def seconds(work: Callable[[], int]) -> dict[str, float]:
    """CPU seconds of a pass, and the tokens that it made."""
    started = time.process_time()
    tokens = work()
    return {"seconds": time.process_time() - started, "tokens": tokens}


def measure_ours(texts: list[str], vocabulary: str) -> dict[str, Any]:
    """A cold and a warm pass for ids, and for ids with offsets."""
    from bertkit.text.tokenizer import Tokenizer

    def ids() -> int:
        return sum(len(tokenizer.token_ids(text)) for text in texts)

    def offsets() -> int:
        return sum(len(tokenizer.pieces(text).starts) for text in texts)

    tokenizer = Tokenizer.load(vocabulary, lower_case=True)
    results = {"ids_cold": seconds(ids), "ids_warm": seconds(ids)}
    tokenizer = Tokenizer.load(vocabulary, lower_case=True)
    return results | {"offsets_cold": seconds(offsets), "offsets_warm": seconds(offsets)}


def measure_peer(texts: list[str], tokenizer_json: str) -> dict[str, Any]:
    """One pass for ids, and one for ids with offsets, after a short one that is not counted."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(tokenizer_json)

    def batches() -> Iterator[list[str]]:
        for start in range(0, len(texts), BATCH):
            yield texts[start : start + BATCH]

    def ids() -> int:
        made = (tokenizer.encode_batch_fast(b, add_special_tokens=False) for b in batches())
        return sum(len(encoding.ids) for batch in made for encoding in batch)

    def offsets() -> int:
        made = (tokenizer.encode_batch(b, add_special_tokens=False) for b in batches())
        return sum(
            min(len(encoding.ids), len(encoding.offsets)) for batch in made for encoding in batch
        )

    tokenizer.encode_batch_fast(texts[:BATCH], add_special_tokens=False)
    return {"ids": seconds(ids), "offsets": seconds(offsets)}


def agreement(texts: list[str], vocabulary: str, tokenizer_json: str) -> tuple[int, int]:
    """How many of some texts have the same ids from both, and how many were compared."""
    import tokenizers

    from bertkit.text.tokenizer import Tokenizer

    ours = Tokenizer.load(vocabulary, lower_case=True)
    peer = tokenizers.Tokenizer.from_file(tokenizer_json)
    chosen = texts[:: max(1, len(texts) // CHECKED)]
    encodings = peer.encode_batch_fast(chosen, add_special_tokens=False)
    same = [ours.token_ids(text) == e.ids for text, e in zip(chosen, encodings, strict=True)]
    return sum(same), len(same)


def child(side: str, options: argparse.Namespace, tokenizer_json: str) -> dict[str, Any]:
    """Measures one side in a process of its own."""
    command = [sys.executable, __file__, str(options.text), "--vocabulary", options.vocabulary]
    command += ["--unit", options.unit, "--megabytes", str(options.megabytes)]
    command += ["--side", side, "--tokenizer-json", tokenizer_json]
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def table(options: argparse.Namespace, rounds: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The comparison as text, and the figures as a line of JSON."""
    megabytes = rounds[0][0]["megabytes"]
    rows = []
    figures: dict[str, Any] = {}
    comparisons = COMPARISONS_ZH if options.unit == "line" else COMPARISONS
    for name, (ours, peer, least) in comparisons.items():
        mine = [megabytes / a[ours]["seconds"] for a, _ in rounds]
        theirs = [megabytes / b[peer]["seconds"] for _, b in rounds]
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        ratio = statistics.median(ratios)
        tokens = rounds[0][0][ours]["tokens"] / megabytes
        figures[name] = {
            "bertkit_mb_per_second": round(statistics.median(mine), 2),
            "tokenizers_mb_per_second": round(statistics.median(theirs), 2),
            "bertkit_tokens_per_second": round(statistics.median(mine) * tokens),
            "tokenizers_tokens_per_second": round(statistics.median(theirs) * tokens),
            "ratio": round(ratio, 2),
            "ratios": [round(r, 2) for r in sorted(ratios)],
            "least": least,
        }
        one = figures[name]
        rows.append(
            f"{name:20}{one['bertkit_mb_per_second']:8.2f}{one['bertkit_tokens_per_second']:12,}"
            f"{one['tokenizers_mb_per_second']:10.2f}{one['tokenizers_tokens_per_second']:12,}"
            f"{ratio:8.2f}  ({min(ratios):.2f} to {max(ratios):.2f}){least:6.1f}"
        )
    head = (
        f"{'':20}{'bertkit':>20}{'tokenizers':>22}\n"
        f"{'':20}{'MB/s':>8}{'tokens/s':>12}{'MB/s':>10}{'tokens/s':>12}{'ratio':>8}"
        f"{'(rounds)':>16}{'least':>6}"
    )
    line = {"megabytes": round(megabytes, 1), "machine": platform.processor() or "unknown"}
    return "\n".join([head, *rows]) + "\n" + json.dumps(line | {"results": figures})


def main() -> None:
    """Runs the rounds, or, as a child, measures one side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="a .txt file, or a folder of them")
    parser.add_argument("--vocabulary", required=True, help="a lower-cased vocab.txt")
    parser.add_argument("--unit", choices=["paragraph", "line"], default="paragraph")
    parser.add_argument("--megabytes", type=float, default=20.0, help="of text, at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=["bertkit", "tokenizers"], help=argparse.SUPPRESS)
    parser.add_argument("--tokenizer-json", help=argparse.SUPPRESS)
    options = parser.parse_args()
    texts = read_texts(options.text, options.unit, options.megabytes)
    if options.side:
        ours = options.side == "bertkit"
        results = (
            measure_ours(texts, options.vocabulary)
            if ours
            else measure_peer(texts, options.tokenizer_json)
        )
        print(json.dumps(results | {"megabytes": sum(len(t.encode()) for t in texts) / 1e6}))
        return

    from bertkit.text.tokenizer import Tokenizer

    with tempfile.TemporaryDirectory() as folder:
        Tokenizer.load(options.vocabulary, lower_case=True).save(folder)
        peer_file = str(Path(folder) / "tokenizer.json")
        same, compared = agreement(texts, options.vocabulary, peer_file)
        rounds = [
            (child("bertkit", options, peer_file), child("tokenizers", options, peer_file))
            for _ in range(options.rounds)
        ]
    print(f"{len(texts):,} texts; the same ids in {same:,} of {compared:,} compared")
    print(table(options, rounds))


if __name__ == "__main__":
    main()
