"""Cost against size: what doubles when width, depth, length, batch or corpus double?

    python benchmarks/scaling.py --plot scaling.svg

Steps of pre-training (the one that `pretrain` runs) over the model's width (64 to 512, 2 layers),
depth (1 to 8 layers of 128), the sequence length (64 to 512 at 2,048 tokens a step, mini), the
batch (4 to 32 sequences of 128, mini), and `prepare` and the plan of an epoch over the corpus
(made-up words, 0.5 to 8 MB). Sizes take turns, so that a busy moment slows all alike, and the
least time of each counts. Printed are a table, the exponent k of seconds ~ size^k of each line
beside that of its arithmetic, and one line of JSON; `--plot` writes all lines on two logarithmic
axes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bertkit.corpus.config import PrepareConfig
from bertkit.corpus.format import Corpus
from bertkit.corpus.prepare import prepare
from bertkit.model.config import ModelConfig, model_config
from bertkit.pretraining.plan import PlanOptions, make_plan
from bertkit.report.loglog import Line, exponent, log_log_plot
from bertkit.speed.roofline import processor
from bertkit.speed.steps import (
    VOCABULARY,
    Step,
    pretraining_flops,
    pretraining_step,
    random_tokens,
)
from bertkit.text.tokenizer import Tokenizer
from bertkit.training.allocator import keep_memory

LETTERS = "abcdefghijklmnopqrst"
WORDS = 20_000
"""Different made-up words; they are spelled with pieces of two letters."""


@dataclass
class Cost:
    """Least seconds of one size; `flops` is the arithmetic of a step, 0 where there is none."""

    line: str
    size: float
    seconds: float
    flops: float


def steps_of(precision: str) -> dict[str, list[tuple[float, ModelConfig, int, int]]]:
    """Line -> (size, model, sequences, length) of each point."""
    mini = model_config("mini", VOCABULARY)
    return {
        "width": [
            (hidden, model_config(f"2x{hidden}x{hidden // 32}", VOCABULARY), 8, 128)
            for hidden in (64, 128, 256, 512)
        ],
        "depth": [
            (layers, model_config(f"{layers}x128x2", VOCABULARY), 8, 128) for layers in (1, 2, 4, 8)
        ],
        "length": [(length, mini, 2048 // length, length) for length in (64, 128, 256, 512)],
        "batch": [(sequences, mini, sequences, 128) for sequences in (4, 8, 16, 32)],
    }


def least(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Least seconds of each work, in turns, after one go that counts for nothing."""
    found = [math.inf] * len(works)
    for number in range(rounds + 1):
        for place, work in enumerate(works):
            began = time.perf_counter()
            work()
            if number:
                found[place] = min(found[place], time.perf_counter() - began)
    return found


def step_costs(precision: str, rounds: int) -> list[Cost]:
    costs = []
    for name, points in steps_of(precision).items():
        made: list[Step] = []
        flops = []
        for _, sizes, sequences, length in points:
            tokens = random_tokens(sequences, length)
            made.append(pretraining_step(sizes, tokens, precision))  # type: ignore[arg-type]
            flops.append(pretraining_flops(sizes, tokens))
        seconds = least(made, rounds)
        costs += [
            Cost(name, point[0], took, needed)
            for point, took, needed in zip(points, seconds, flops, strict=True)
        ]
    return costs


def made_up_tokenizer(vocabulary: int = 0) -> Tokenizer:
    """Of pieces of two letters, filled up to so many entries."""
    pieces = [a + b for a in LETTERS for b in LETTERS]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *pieces]
    entries += [f"##{piece}" for piece in pieces]
    entries += [f"[unused{number}]" for number in range(vocabulary - len(entries))]
    return Tokenizer(entries, lower_case=True)


def made_up_text(path: Path, size: int) -> None:
    """Documents of words whose frequencies fall as 1 / rank, about so many bytes."""
    generator = random.Random(0)
    words = [
        "".join(generator.choices(LETTERS, k=2 * generator.randint(1, 4))) for _ in range(WORDS)
    ]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            chosen = generator.choices(words, weights, k=20 * 15)
            lines = [" ".join(chosen[k : k + 15]) + "." for k in range(0, len(chosen), 15)]
            written += file.write("\n".join(lines) + "\n\n")


def corpus_costs(megabytes: Sequence[float]) -> list[Cost]:
    """Of `prepare` with one worker, and of the plan of an epoch at 128 tokens."""
    costs = []
    tokenizer = made_up_tokenizer()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "vocab").mkdir()
        tokenizer.save(folder / "vocab")
        for size in megabytes:
            text, output = folder / f"{size}.txt", folder / f"corpus-{size}"
            made_up_text(text, int(size * 1e6))
            config = PrepareConfig(
                inputs=[str(text)],
                vocab=str(folder / "vocab"),
                output=str(output),
                sentences="line",
                workers=1,
                quiet=True,
            )
            began = time.perf_counter()
            prepare(config)
            costs.append(Cost("prepare", size, time.perf_counter() - began, 0.0))
            split = Corpus.open(output).splits["train"]
            options = PlanOptions(sequence_length=128, seed=0)

            def plan(split: object = split, options: PlanOptions = options) -> object:
                return make_plan(
                    split.sentence_lengths,  # type: ignore[attr-defined]
                    split.document_bounds,  # type: ignore[attr-defined]
                    options,
                    "train",
                    0,
                )

            costs.append(Cost("plan", size, least([plan], 3)[0], 0.0))
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2, help="turns of each size")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.5, 1, 2, 4, 8])
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--plot", type=Path, help="an SVG file to write")
    options = parser.parse_args()
    keep_memory()
    costs = step_costs(options.precision, options.rounds) + corpus_costs(options.megabytes)
    names = list(dict.fromkeys(cost.line for cost in costs))
    lines = {
        name: [(cost.size, cost.seconds) for cost in costs if cost.line == name] for name in names
    }
    needed = {
        name: [(cost.size, cost.flops) for cost in costs if cost.line == name and cost.flops]
        for name in names
    }
    print(f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(f"{'':<9}{'seconds ~ size^k':>17}{'arithmetic':>12}   seconds at each size")
    exponents = {}
    for name, points in lines.items():
        slope = exponent(points)
        exponents[name] = round(slope, 3)
        arithmetic = f"{exponent(needed[name]):.2f}" if needed[name] else ""
        told = ", ".join(f"{size:g}: {seconds:.3f}" for size, seconds in points)
        print(f"{name:<9}{slope:>17.2f}{arithmetic:>12}   {told}")
    if options.plot:
        drawn = [Line(name, points) for name, points in lines.items()]
        options.plot.write_text(
            log_log_plot("Cost against size", "size", "seconds", drawn), encoding="utf-8"
        )
    print(
        json.dumps(
            {
                "benchmark": "scaling",
                "processor": processor(),
                "threads": torch.get_num_threads(),
                "torch": torch.__version__,
                "exponents": exponents,
                "costs": [asdict(cost) for cost in costs],
            }
        )
    )


if __name__ == "__main__":
    main()
