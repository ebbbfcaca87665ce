"""Tokens per second of a pre-training step: bertkit beside transformers at its best settings.

    python benchmarks/pretraining_step.py                     # mini, 64 x 128 tokens
    python benchmarks/pretraining_step.py --size base --sequences 32
    python benchmarks/pretraining_step.py --varied            # 64 sequences of 16 to 128 tokens

A step is forward, backward, clipping and AdamW, with dropout 0.1 everywhere, 15 % of the tokens
masked, next sentence, and a vocabulary of 30,522, on the same random tokens. transformers is
`BertForPreTraining` in each combination of float32 or bf16 autocast, eager or sdpa attention,
compiled or not, with the same tuned C allocator as bertkit ("shipped" is without). The steps are
those of `bertkit bench` (bertkit/speed/). A short scan finds transformers' best setting; then
bertkit and the best take turns (A B A B ...) in processes of their own, a few steps at a time, so
that a busy machine slows both. Printed are one table (medians; GFLOP/s is the arithmetic that the
step needs, to be compared with benchmarks/roofline.py) and one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys

import torch
from turns import Side, Timing, serve

from bertkit.model.config import model_config
from bertkit.speed import peer
from bertkit.speed.roofline import processor
from bertkit.speed.steps import VOCABULARY, pretraining_flops, pretraining_step, random_tokens
from bertkit.training.allocator import keep_memory
from bertkit.training.precision import compute_dtype

LENGTH = 128
OURS = "bertkit"
SHIPPED = "float32 eager shipped"


def peer_settings(bf16: bool, compiled: bool) -> list[str]:
    """Names of the settings to try for transformers."""
    precisions = ["float32", "bf16"] if bf16 else ["float32"]
    compiling = ["", " compile"] if compiled else [""]
    products = itertools.product(precisions, ["eager", "sdpa"], compiling)
    return [
        SHIPPED,
        *(f"{precision} {attention}{compile}" for precision, attention, compile in products),
    ]


def work(setting: str, options: argparse.Namespace) -> None:
    """A worker process: makes a step, then answers each number on stdin with so many timings."""
    if options.threads:
        torch.set_num_threads(options.threads)
    if setting != SHIPPED:
        keep_memory()
    torch.manual_seed(0)
    sizes = model_config(options.size, VOCABULARY)
    tokens = random_tokens(options.sequences, LENGTH, options.varied)
    if setting == OURS:
        step = pretraining_step(sizes, tokens, options.precision)
    else:
        step = peer.pretraining_step(sizes, tokens, setting)
    loss = step()
    serve(step, {"loss": loss, "threads": torch.get_num_threads()})


def side(setting: str, options: argparse.Namespace) -> Side:
    """A process that holds a setting ready."""
    command = [sys.executable, __file__, "--work", setting, "--size", options.size]
    command += ["--sequences", str(options.sequences), "--precision", options.precision]
    command += ["--threads", str(options.threads), *["--varied"] * options.varied]
    return Side(setting, command)


def scan(settings: list[str], options: argparse.Namespace) -> dict[str, float]:
    """Seconds a step of each setting, the better of two after a warm one."""
    found: dict[str, float] = {}
    for setting in settings:
        try:
            worker = side(setting, options)
            found[setting] = min(wall for wall, _ in worker.time(3)[1:])
            worker.close()
        except RuntimeError as error:  # as where there is no C++ compiler
            print(f"{setting}: left out, {error}", file=sys.stderr)
            continue
        print(f"scan: transformers {setting}: {found[setting]:.2f} s a step", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="mini")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--varied", action="store_true", help="lengths of 16 to 128 tokens")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps in a turn")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--peer", help="a setting of transformers, to leave out the scan")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options)
        return

    import transformers

    bf16 = compute_dtype(options.precision) == torch.bfloat16
    if options.peer:
        scanned, best = {}, options.peer
    else:
        scanned = scan(peer_settings(bf16, not options.no_compile), options)
        best = min(scanned, key=lambda setting: scanned[setting])
    sides = {name: side(name, options) for name in (OURS, best)}
    times: dict[str, list[Timing]] = {name: [] for name in sides}
    for worker in sides.values():
        worker.time(1)
    for _ in range(options.rounds):
        for name, worker in sides.items():
            times[name] += worker.time(options.steps)
    threads = sides[OURS].ready["threads"]
    for worker in sides.values():
        worker.close()

    made = random_tokens(options.sequences, LENGTH, options.varied)
    tokens, flops = made.count, pretraining_flops(model_config(options.size, VOCABULARY), made)
    lengths = f"{made.lengths.min()} to {LENGTH}" if options.varied else f"{LENGTH}"
    wall = {name: statistics.median(pair[0] for pair in pairs) for name, pairs in times.items()}
    busy = {name: statistics.median(pair[1] for pair in pairs) for name, pairs in times.items()}
    print(
        f"pre-training step, {options.size}, {options.sequences} x {lengths} tokens, "
        f"{processor()}, {threads} threads, torch {torch.__version__}, "
        f"transformers {transformers.__version__}"
    )
    print(f"{'':42}{'tokens/s':>10}{'s/step':>9}{'processor s':>13}{'GFLOP/s':>9}")
    for setting, seconds in scanned.items():
        print(f"transformers {setting:<29}{tokens / seconds:>10,.0f}{seconds:>9.2f}   (scan)")
    ours = "bf16" if bf16 else "float32"
    for name, label in ((best, f"transformers {best}"), (OURS, f"bertkit {ours}")):
        print(
            f"{label:<42}{tokens / wall[name]:>10,.0f}{wall[name]:>9.2f}{busy[name]:>13.2f}"
            f"{flops / wall[name] / 1e9:>9,.0f}"
        )
    ratio, busy_ratio = wall[best] / wall[OURS], busy[best] / busy[OURS]
    print(f"bertkit is {ratio:.2f} times as fast ({busy_ratio:.2f} by processor time)")
    print(
        json.dumps(
            {
                "benchmark": "pretraining_step",
                "size": options.size,
                "sequences": options.sequences,
                "length": LENGTH,
                "varied": options.varied,
                "threads": threads,
                "processor": processor(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "precision": ours,
                "bertkit_tokens_per_second": round(tokens / wall[OURS], 1),
                "transformers_tokens_per_second": round(tokens / wall[best], 1),
                "transformers_setting": best,
                "transformers_scan": {k: round(tokens / v, 1) for k, v in scanned.items()},
                "step_flops": flops,
                "ratio": round(ratio, 3),
                "ratio_processor_time": round(busy_ratio, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
