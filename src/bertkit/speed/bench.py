"""`bertkit bench`: how fast training and answers are here, and what share of the limit that is.

A line is one kind of work at one size. bertkit and, where it is installed, `transformers` do it in
turns (A B A B ...) in one process, with the same tuned C allocator, so that a busy moment slows
both; the ratio is the median of the rounds' ratios. The share is the arithmetic that the work needs
(only masked positions meet the vocabulary, only real tokens count, whatever a side really computes)
over its time and the best matrix product measured in the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bertkit.errors import UserError
from bertkit.model.config import ModelConfig, model_config
from bertkit.progress import Progress, say
from bertkit.report.columns import text_table
from bertkit.speed import peer, steps
from bertkit.speed.config import BenchConfig
from bertkit.speed.roofline import dtype_name, measure_roofline
from bertkit.training.allocator import keep_memory, release_memory
from bertkit.training.device import choose_device, synchronize

OURS, PEER = "bertkit", "transformers"
SHORT_TEXT = 32
"""Tokens of the one text whose latency is told."""

ANSWERED = 64
"""Texts answered at once to tell the rate, of 16 to --sequence-length tokens."""

ROOFLINE_SECONDS = 0.1

Work = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """A kind of work: its name, the unit of its rate, units and operations a call, the sides."""

    name: str
    unit: str
    amount: float
    flops: float
    sides: dict[str, Work]


@dataclass
class Line:
    """One kind of work at one size.

    Attributes:
        work, size: what was timed.
        unit: what `rate` counts a second.
        rate: of bertkit, the median of its turns.
        seconds: that one piece of work takes.
        share: of the limit of this machine, 0 to 1.
        peer_rate, peer_share: of transformers; None where it was not timed.
        ratio: bertkit's rate over the peer's, the median of the rounds.
        ratio_range: the lowest and the highest round.
    """

    work: str
    size: str
    unit: str
    rate: float
    seconds: float
    share: float
    peer_rate: float | None = None
    peer_share: float | None = None
    ratio: float | None = None
    ratio_range: tuple[float, float] | None = None


@dataclass
class BenchResult:
    """What this machine does.

    Attributes:
        precision: the type that both sides compute in.
        peer: what bertkit is compared with, or None.
        peaks: operations a second of the best matrix product, by type.
        copy_bytes: that memory moves a second, read and written.
    """

    processor: str
    threads: int
    torch: str
    precision: str
    sequence_length: int
    batch_size: int
    peer: str | None
    peaks: dict[str, float]
    copy_bytes: float
    lines: list[Line]

    def __str__(self) -> str:
        on = f", {self.threads} threads" if self.threads else ""
        text = [
            f"{self.processor}{on}, torch {self.torch}",
            "matrix products: "
            + ", ".join(f"{name} {peak / 1e9:,.0f} GFLOP/s" for name, peak in self.peaks.items())
            + f"; memory {self.copy_bytes / 1e9:.1f} GB/s",
            f"in {self.precision}; steps of {self.batch_size} x {self.sequence_length} tokens, "
            "the share is that of the best matrix product",
        ]
        header = ["", "size", "unit", OURS, "share"]
        if self.peer is not None:
            header += [self.peer, "share", "ratio"]
        text += text_table([header, *(_cells(line) for line in self.lines)], names=3)
        return "\n".join(text)


def bench(config: BenchConfig) -> BenchResult:
    """Measures, `config.seconds` for each side of each line at least.

    Raises:
        UserError: a size that is none, or numbers that make no measurement.
    """
    _check(config)
    device = choose_device(config.device)
    threads = torch.get_num_threads()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    keep_memory()
    try:
        return _bench(config, device)
    finally:
        torch.set_num_threads(threads)
        release_memory()


def _bench(config: BenchConfig, device: torch.device) -> BenchResult:
    precision = dtype_name(config.precision, device)
    sizes = {name: model_config(name, steps.VOCABULARY) for name in config.size}
    types = list(dict.fromkeys([precision, "float32", "bfloat16"]))
    compared = config.peer and peer.installed()
    say("measuring matrix products and memory", config.quiet)
    # Before and after, for one of them may meet a busy moment.
    limits = [measure_roofline(types, device=device, seconds=ROOFLINE_SECONDS)]
    timed: list[tuple[str, Measured, dict[str, list[float]]]] = []
    with Progress("bench", 4 * len(sizes), "lines", config.quiet) as progress:
        for name, size in sizes.items():
            for measure in (_pretraining, _finetuning, _answers, _latency):
                work = measure(config, size, device, compared)
                times = in_turns(work.sides, config.rounds, config.seconds, device)
                work.sides.clear()  # their memory
                timed.append((name, work, times))
                progress.advance()
    limits.append(measure_roofline(types, device=device, seconds=ROOFLINE_SECONDS))
    peaks = {name: max(limit.peak(name) for limit in limits) for name in types}
    return BenchResult(
        processor=limits[0].processor,
        threads=limits[0].threads,
        torch=torch.__version__,
        precision=precision,
        sequence_length=config.sequence_length,
        batch_size=config.batch_size,
        peer=_peer_name() if compared else None,
        peaks=peaks,
        copy_bytes=max(limit.copy_bytes for limit in limits),
        lines=[_line(name, work, times, peaks[precision]) for name, work, times in timed],
    )


def in_turns(
    sides: Mapping[str, Work], rounds: int, seconds: float, device: torch.device | str = "cpu"
) -> dict[str, list[float]]:
    """Seconds that each side's work takes, for each round: the median of the round's calls.

    Every side works once before it counts; in a round it works for its part of `seconds`, at
    least once.
    """
    for work in sides.values():
        work()
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            times: list[float] = []
            while not times or sum(times) < seconds / rounds:
                synchronize(device)
                began = time.perf_counter()
                work()
                synchronize(device)
                times.append(time.perf_counter() - began)
            found[name].append(statistics.median(times))
    return found


def _pretraining(
    config: BenchConfig, size: ModelConfig, device: torch.device, compared: bool
) -> Measured:
    tokens = _tokens(config.batch_size, config.sequence_length, size)
    sides = _sides("pretraining_step", config, size, tokens, device, compared)
    flops = steps.pretraining_flops(size, tokens)
    return Measured("pre-training step", "tokens/s", tokens.count, flops, sides)


def _finetuning(
    config: BenchConfig, size: ModelConfig, device: torch.device, compared: bool
) -> Measured:
    tokens = _tokens(config.batch_size, config.sequence_length, size, varied=True)
    sides = _sides("finetuning_step", config, size, tokens, device, compared)
    flops = steps.finetuning_flops(size, tokens)
    return Measured("fine-tuning step", "tokens/s", tokens.count, flops, sides)


def _answers(
    config: BenchConfig, size: ModelConfig, device: torch.device, compared: bool
) -> Measured:
    tokens = _tokens(ANSWERED, config.sequence_length, size, varied=True)
    sides = _sides("answering", config, size, tokens, device, compared)
    flops = steps.answering_flops(size, tokens)
    return Measured("answers", "texts/s", ANSWERED, flops, sides)


def _latency(
    config: BenchConfig, size: ModelConfig, device: torch.device, compared: bool
) -> Measured:
    length = min(SHORT_TEXT, config.sequence_length)
    tokens = _tokens(1, length, size)
    sides = _sides("answering", config, size, tokens, device, compared)
    flops = steps.answering_flops(size, tokens)
    return Measured(f"one text of {length} tokens", "ms", 1, flops, sides)


def _sides(
    work: str,
    config: BenchConfig,
    size: ModelConfig,
    tokens: steps.Tokens,
    device: torch.device,
    compared: bool,
) -> dict[str, Work]:
    """The function of that name in `steps`, and in `peer` where that is there, ready to work."""
    sides: dict[str, Work] = {OURS: getattr(steps, work)(size, tokens, config.precision, device)}
    if compared:
        sides[PEER] = getattr(peer, work)(size, tokens, _setting(config, device), device)
    return sides


def _tokens(sequences: int, length: int, size: ModelConfig, varied: bool = False) -> steps.Tokens:
    return steps.random_tokens(sequences, length, varied, size.vocab_size)


def _setting(config: BenchConfig, device: torch.device) -> str:
    """transformers' best setting that needs no compiler."""
    bf16 = dtype_name(config.precision, device) == "bfloat16"
    return "bf16 sdpa" if bf16 else "float32 sdpa"


def _line(size: str, work: Measured, times: dict[str, list[float]], peak: float) -> Line:
    took = statistics.median(times[OURS])
    share = work.flops / took / peak
    line = Line(work.name, size, work.unit, work.amount / took, took, share)
    if PEER in times:
        other = statistics.median(times[PEER])
        ratios = [b / a for a, b in zip(times[OURS], times[PEER], strict=True)]
        line.peer_rate, line.peer_share = work.amount / other, work.flops / other / peak
        line.ratio, line.ratio_range = statistics.median(ratios), (min(ratios), max(ratios))
    return line


def _cells(line: Line) -> list[str]:
    def rate(value: float) -> str:
        return f"{1000 / value:,.2f}" if line.unit == "ms" else f"{value:,.0f}"

    cells = [line.work, line.size, line.unit, rate(line.rate), f"{line.share:.0%}"]
    if line.peer_rate is not None:
        low, high = line.ratio_range or (0.0, 0.0)
        cells += [
            rate(line.peer_rate),
            f"{line.peer_share:.0%}",
            f"{line.ratio:.2f} ({low:.2f} to {high:.2f})",
        ]
    return cells


def _peer_name() -> str:
    import transformers

    return f"{PEER} {transformers.__version__}"


def _check(config: BenchConfig) -> None:
    least: dict[str, Any] = {"sequence_length": 4, "batch_size": 1, "rounds": 1}
    if config.threads is not None:
        least["threads"] = 1
    for name, value in least.items():
        if getattr(config, name) < value:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is {getattr(config, name)}; give at least {value}")
    if config.sequence_length > 512:
        raise UserError(
            f"--sequence-length is {config.sequence_length}; the sizes have 512 positions"
        )
    if config.seconds <= 0:
        raise UserError(f"--seconds is {config.seconds:g}; give more than 0")
    if not config.size:
        raise UserError("--size names no model size; give tiny, for example")
