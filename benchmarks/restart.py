"""Kill -9 at random moments: does a pre-training run end with the same weights, byte for byte?

    python benchmarks/restart.py CORPUS --kills 30

Trains a small model in two phases without a stop, then again with kills: half of them at a random
moment, half as soon as a restart point is being written. A kill counts when the run then continued
from a step above 0. The moments are spread over the run, so that about half of the kills come
after the phase change; `--option` hands more options to both runs, as `--option=--workers=2`.
Printed are a line for each kill, one table and one line of JSON; the exit code is 1 when any byte
differs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

COMPARED = ("model.safetensors", "checkpoints/step-{steps:08d}/optimizer.safetensors")
FIRST_PHASE = 0.5
"""Share of the steps with the shorter sequences."""

CHECKPOINT_STEPS = 5


@dataclass
class Kill:
    """One kill.

    Attributes:
        step: the step that the run continued from.
        writing: a restart point was being written.
        after_change: it had begun the second phase.
    """

    step: int
    writing: bool
    after_change: bool


def command(corpus: str, run: Path, steps: int, more: Sequence[str]) -> list[str]:
    options = {
        "--model": "2x128x2",
        "--sequence-length": "64",
        "--phases": f"32:{FIRST_PHASE}",
        "--batch-size": "16",
        "--steps": str(steps),
        "--checkpoint-steps": str(CHECKPOINT_STEPS),
        "--evaluate-steps": str(steps),
        "--evaluate-examples": "64",
        "--learning-rate": "1e-3",
    }
    flags = [word for pair in options.items() for word in pair]
    return [sys.executable, "-m", "bertkit", "pretrain", corpus, "-o", str(run), *flags, *more]


def newest_step(run: Path) -> int:
    """The step of the newest finished restart point, 0 without one."""
    steps = [int(path.name.removeprefix("step-")) for path in run.glob("checkpoints/step-*")]
    return max(steps, default=0)


def being_written(run: Path, process: int) -> bool:
    """Whether that process has begun a restart point and not finished it."""
    return any(run.glob(f"checkpoints/.step-*.partial-{process}"))


def kill_once(line: list[str], run: Path, inside: bool, after: int, wait: float) -> Kill | None:
    """Starts the run and kills it `wait` seconds after a restart point of step `after` or later
    is whole; None when the run ended before."""
    before = newest_step(run)
    process = subprocess.Popen(line, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    due_at = None
    while process.poll() is None:
        if due_at is None and newest_step(run) >= max(after, before + 1):
            due_at = time.monotonic() + wait
        due = due_at is not None and time.monotonic() >= due_at
        if due and (not inside or being_written(run, process.pid)):
            process.send_signal(signal.SIGKILL)
            process.wait()
            step = newest_step(run)
            return Kill(step, being_written(run, process.pid), False)
        time.sleep(0.0005)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--option", action="append", default=[], help="for both runs")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    steps, wanted, change = arguments.steps, arguments.kills, FIRST_PHASE * arguments.steps
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory() as folder:
        whole, cut = Path(folder, "whole"), Path(folder, "cut")
        subprocess.run(command(arguments.corpus, whole, steps, arguments.option), check=True)
        line = command(arguments.corpus, cut, steps, arguments.option)
        # Every start goes on for at least one restart point, so the goals may run ahead.
        goals = sorted(generator.randrange(1, int(0.97 * steps)) for _ in range(wanted))
        for number, goal in enumerate(goals):
            killed = kill_once(line, cut, number % 2 == 1, goal, generator.uniform(0, 0.1))
            if killed is None:
                break
            killed.after_change = killed.step > change
            kills.append(killed)
            where = "inside the writing of a restart point" if killed.writing else "between two"
            phase = 2 if killed.after_change else 1
            print(
                f"kill {len(kills)}: {where}; continues from step {killed.step}, phase {phase}",
                flush=True,
            )
        subprocess.run(line, check=True)
        names = [name.format(steps=steps) for name in COMPARED]
        same = {name: (whole / name).read_bytes() == (cut / name).read_bytes() for name in names}
    counted = [kill for kill in kills if kill.step > 0]
    rows = {
        "kills that count (continued from a step above 0)": len(counted),
        "of them inside the writing of a restart point": sum(k.writing for k in counted),
        "of them after the phase change": sum(k.after_change for k in counted),
    }
    print()
    for name, value in rows.items():
        print(f"{name:<50} {value:>4}")
    for name, equal in same.items():
        print(f"{name:<50} {'the same bytes' if equal else 'DIFFERENT'}")
    print(json.dumps({"kills": [asdict(kill) for kill in kills], "same": same}))
    sys.exit(0 if all(same.values()) else 1)


if __name__ == "__main__":
    main()
