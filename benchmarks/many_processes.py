"""Do one, two and three processes learn the same? The loss of every step, and how far apart.


    python benchmarks/many_processes.py CORPUS [--plot curves.html]

Trains the same small model with torchrun in 1, 2 and 3 processes (gloo on a CPU, one thread each),
in float32 with dropout, 12 sequences in three micro-batches a step. Printed are one table and one
line of JSON; `--plot` writes the three curves into one chart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bertkit.report.chart import Chart, Series, figure
from bertkit.report.log import Point, curve, read_records
from bertkit.report.page import Section, write_report

COUNTS = (1, 2, 3)
OPTIONS = (
    *("--model", "tiny", "--batch-size", "12", "--micro-batch-size", "4"),
    *("--sequence-length", "64", "--learning-rate", "1e-3", "--precision", "fp32"),
    *("--log-steps", "1", "--quiet"),
)


def losses(corpus: str, count: int, steps: int, run: Path) -> tuple[list[Point], float]:
    """The training losses of a run in `count` processes, and its seconds."""
    began = time.monotonic()
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)),
            *("-m", "bertkit", "pretrain", corpus, "-o", str(run), "--steps", str(steps)),
            *OPTIONS,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return curve(read_records(run), "train", "loss"), time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", help="a prepared corpus")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", type=Path, help="an HTML file for the curves")
    chosen = parser.parse_args()
    found: dict[int, list[Point]] = {}
    print("processes  seconds  last loss  largest difference to one process")
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        for count in COUNTS:
            found[count], seconds = losses(
                chosen.corpus, count, chosen.steps, Path(folder) / str(count)
            )
            pairs = zip(found[COUNTS[0]], found[count], strict=True)
            differences.append(max(abs(a - b) for (_, a), (_, b) in pairs))
            last = found[count][-1][1]
            print(f"{count:9}  {seconds:7.0f}  {last:9.5f}  {differences[-1]:.2e}")
    print(json.dumps({"steps": chosen.steps, "processes": COUNTS, "differences": differences}))
    if chosen.plot is not None:
        series = [Series(f"{count} processes", points) for count, points in found.items()]
        drawn = figure(Chart("Loss of each step", series))
        lead = f"The same run in {', '.join(map(str, COUNTS))} processes."
        write_report(chosen.plot, "Many processes", lead, [Section("Loss", [drawn])])


if __name__ == "__main__":
    main()
