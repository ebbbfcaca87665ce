"""Does bfloat16 learn as float32 does? Both loss curves of a pre-training, over several seeds.

    python benchmarks/precision.py CORPUS
    python benchmarks/precision.py CORPUS --model mini --steps 500 --seeds 5

Runs `bertkit pretrain` on a prepared corpus in float32 and in bfloat16 with each seed, which fixes
the weights at the start, the batches, the masks and the dropout of both. Printed are a line for
each window of steps with the mean loss, the standard deviation of float32 over the seeds and the
mean difference that bfloat16 makes, then a line of JSON. The exit code is 1 where the difference of
the last window is more than that standard deviation. A processor without bfloat16 is slow at it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from short_run import train_records

from bertkit.speed.roofline import processor


def curve(options: argparse.Namespace, precision: str, seed: int) -> list[float]:
    """The mean loss of each window of steps."""
    records = train_records(
        options.corpus,
        model=options.model,
        sequence_length=options.length,
        batch_size=options.sequences,
        learning_rate=options.learning_rate,
        warmup=0.1,
        steps=options.steps,
        log_steps=options.window,
        precision=precision,
        evaluate_examples=0,
        checkpoint_steps=0,
        seed=seed,
    )
    return [one["loss"] for one in records]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    curves: dict[str, list[list[float]]] = {"fp32": [], "bf16": []}
    for seed in range(options.seeds):
        for precision, found in curves.items():
            found.append(curve(options, precision, seed))
            print(f"seed {seed}, {precision}: {found[-1][-1]:.4f}", file=sys.stderr, flush=True)
    print(f"{'steps':<8}{'float32':>9}{'sd':>9}{'bfloat16':>10}{'difference':>12}")
    rows = []
    for window, (exact, rounded) in enumerate(
        zip(zip(*curves["fp32"], strict=True), zip(*curves["bf16"], strict=True), strict=True)
    ):
        row = {
            "steps": min((window + 1) * options.window, options.steps),
            "float32": statistics.fmean(exact),
            "sd": statistics.stdev(exact) if len(exact) > 1 else 0.0,
            "bfloat16": statistics.fmean(rounded),
            "difference": statistics.fmean(b - a for a, b in zip(exact, rounded, strict=True)),
        }
        rows.append(row)
        print(
            f"{row['steps']:<8}{row['float32']:>9.4f}{row['sd']:>9.4f}{row['bfloat16']:>10.4f}"
            f"{row['difference']:>+12.4f}"
        )
    facts = {"processor": processor(), "model": options.model, "seeds": options.seeds}
    print(json.dumps({"benchmark": "precision", **facts, "rows": rows}))
    sys.exit(1 if abs(rows[-1]["difference"]) > rows[-1]["sd"] else 0)


if __name__ == "__main__":
    main()
