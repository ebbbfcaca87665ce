"""Kill -9 at random moments: does a pre-training run end with the same weights, byte for byte?

    python benchmarks/restart.py CORPUS --kills 8

Trains a small model without a stop, then again with kills: half of them at a random moment, half
as soon as a restart point is being written. A kill counts when the run then continued from a step
above 0. Printed are a line for each kill, one table and one line of JSON; the exit code is 1 when
any byte differs.
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
from pathlib import Path

COMPARED = ("model.safetensors", "checkpoints/step-{steps:08d}/optimizer.safetensors")


def command(corpus: str, run: Path, steps: int) -> list[str]:
    options = {
        "--model": "2x128x2",
        "--sequence-length": "64",
        "--batch-size": "16",
        "--steps": str(steps),
        "--checkpoint-steps": "5",
        "--evaluate-steps": str(steps),
        "--evaluate-examples": "64",
        "--learning-rate": "1e-3",
    }
    flags = [word for pair in options.items() for word in pair]
    return [sys.executable, "-m", "bertkit", "pretrain", corpus, "-o", str(run), *flags]


def newest_step(run: Path) -> int:
    """The step of the newest finished restart point, 0 without one."""
    steps = [int(path.name.removeprefix("step-")) for path in run.glob("checkpoints/step-*")]
    return max(steps, default=0)


def being_written(run: Path, process: int) -> bool:
    """Whether that process has begun a restart point and not finished it."""
    return any(run.glob(f"checkpoints/.step-*.partial-{process}"))


def kill_once(line: list[str], run: Path, inside: bool, wait: float) -> tuple[int, bool] | None:
    """Starts the run and kills it; (step it will continue from, inside a write), None if done."""
    before = newest_step(run)
    process = subprocess.Popen(line, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    alive_since = None
    while process.poll() is None:
        if alive_since is None and newest_step(run) > before:
            alive_since = time.monotonic()  # the first restart point of this part is whole
        due = alive_since is not None and time.monotonic() - alive_since >= wait
        if due and (not inside or being_written(run, process.pid)):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return newest_step(run), being_written(run, process.pid)
        time.sleep(0.0005)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    kills: list[tuple[int, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        whole, cut = Path(folder, "whole"), Path(folder, "cut")
        subprocess.run(command(arguments.corpus, whole, arguments.steps), check=True)
        line = command(arguments.corpus, cut, arguments.steps)
        while len(kills) < arguments.kills:
            killed = kill_once(line, cut, len(kills) % 2 == 1, generator.uniform(0, 1.5))
            if killed is None:
                break
            kills.append(killed)
            where = "inside the writing of a restart point" if killed[1] else "between two"
            print(f"kill {len(kills)}: {where}; continues from step {killed[0]}", flush=True)
        subprocess.run(line, check=True)
        names = [name.format(steps=arguments.steps) for name in COMPARED]
        same = {name: (whole / name).read_bytes() == (cut / name).read_bytes() for name in names}
    counted = [kill for kill in kills if kill[0] > 0]
    inside = sum(kill[1] for kill in counted)
    print(f"\ncontinued from a step above 0: {len(counted)}, of them killed in a write: {inside}")
    for name, equal in same.items():
        print(f"{name}: {'the same bytes' if equal else 'DIFFERENT'}")
    print(json.dumps({"kills": kills, "same": same}))
    sys.exit(0 if all(same.values()) else 1)


if __name__ == "__main__":
    main()
