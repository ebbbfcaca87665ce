"""Does the loader keep up? The share of the time in which a pre-training waits for its batches.

    python benchmarks/waiting.py CORPUS
    python benchmarks/waiting.py CORPUS --model tiny --workers 0 1 2

Runs `bertkit pretrain` on a prepared corpus for a few steps with each number of workers (threads
that build batches in the background; 0 builds them between the steps) and reads `waiting` from its
log. The first line of the log is left out: in it the first batches are built, and the epoch's plan.
Printed are a table and one line of JSON; the exit code is 1 where a run with workers waits for
more than 2 % of its time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from short_run import train_records

MOST = 0.02
LOG_STEPS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    rows = []
    print(f"{'workers':<9}{'waiting':>9}{'tokens/s':>10}", flush=True)
    for workers in options.workers:
        records = train_records(
            options.corpus,
            model=options.model,
            sequence_length=options.length,
            batch_size=options.sequences,
            micro_batch_size=min(32, options.sequences),
            steps=options.steps + LOG_STEPS,
            log_steps=LOG_STEPS,
            workers=workers,
            evaluate_examples=32,
        )[1:]
        waiting = statistics.mean(one["waiting"] for one in records)
        speed = statistics.median(one["tokens_per_second"] for one in records)
        rows.append({"workers": workers, "waiting": round(waiting, 5), "tokens_per_second": speed})
        print(f"{workers:<9}{waiting:>9.2%}{speed:>10,.0f}", flush=True)
    facts = {"model": options.model, "sequences": options.sequences, "length": options.length}
    print(json.dumps({"benchmark": "waiting", **facts, "rows": rows}))
    sys.exit(1 if any(row["workers"] and row["waiting"] > MOST for row in rows) else 0)


if __name__ == "__main__":
    main()
