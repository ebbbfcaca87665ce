"""Is the memory that `pretrain --dry-run` predicts what a run takes?

    python benchmarks/memory.py
    python benchmarks/memory.py --run base:8:128 --steps 2

For each SIZE:MICRO-BATCH:LENGTH a process of its own predicts, and another one trains a few steps
of one micro-batch on a made-up corpus with a vocabulary of 30,522, held-out examples and a restart
point included; its peak is the kernel's (VmHWM). Printed are a table and one line of JSON; the
exit code is 1 where a prediction is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from scaling import made_up_text, made_up_tokenizer

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.prepare import prepare
from bertkit.speed.steps import VOCABULARY

TOLERANCE = 0.15
RUNS = ["tiny:32:128", "tiny:8:512", "mini:8:128", "mini:32:128", "small:8:128", "small:16:128"]
MEGABYTES = 1.0

CHILD = """
import re, sys
from bertkit.cli import main
code = main(sys.argv[1:])
status = open("/proc/self/status").read()
print("peak", 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]), file=sys.stderr)
sys.exit(code)
"""


def call(arguments: list[str]) -> tuple[str, int]:
    """What a command of bertkit's prints, and the peak of its process in bytes."""
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bertkit {' '.join(arguments)} failed: {done.stderr}")
    return done.stdout, int(done.stderr.rpartition("peak ")[2])


def made_up_corpus(folder: Path) -> Path:
    """A corpus with as many vocabulary entries as the released model has."""
    tokenizer = made_up_tokenizer(VOCABULARY)
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    made_up_text(folder / "text.txt", int(MEGABYTES * 1e6))
    prepare(
        PrepareConfig(
            inputs=[str(folder / "text.txt")],
            vocab=str(folder / "vocab"),
            output=str(folder / "corpus"),
            sentences="line",
            held_out=0.1,
            workers=1,
            quiet=True,
        )
    )
    return folder / "corpus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", nargs="+", default=RUNS, help="SIZE:MICRO-BATCH:LENGTH")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    options = parser.parse_args()
    rows = []
    print(f"{'':<16}{'predicted MB':>13}{'measured MB':>13}{'off by':>9}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = made_up_corpus(Path(scratch))
        for number, name in enumerate(options.run):
            size, batch, length = name.split(":")
            arguments = ["pretrain", str(corpus), "-o", str(Path(scratch, f"run-{number}"))]
            arguments += ["--model", size, "--sequence-length", length, "--phases", "none"]
            arguments += ["--batch-size", batch, "--micro-batch-size", batch, "--quiet"]
            arguments += ["--steps", str(options.steps), "--evaluate-examples", "32"]
            arguments += ["--checkpoint-steps", str(options.steps), "--no-verify"]
            arguments += ["--precision", options.precision]
            printed, _ = call([*arguments, "--dry-run", "--json"])
            parts = json.loads(printed)["memory"]
            _, measured = call(arguments)
            predicted = sum(parts.values())
            off = predicted / measured - 1
            rows.append({"run": name, "parts": parts, "measured": measured, "off": round(off, 4)})
            print(f"{name:<16}{predicted / 1e6:>13,.0f}{measured / 1e6:>13,.0f}{off:>+9.1%}")
            print(
                "                "
                + ", ".join(f"{part} {value / 1e6:,.0f}" for part, value in parts.items()),
                flush=True,
            )
    print(json.dumps({"benchmark": "memory", "tolerance": TOLERANCE, "rows": rows}))
    sys.exit(0 if all(abs(row["off"]) <= TOLERANCE for row in rows) else 1)


if __name__ == "__main__":
    main()
