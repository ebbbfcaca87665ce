"""A pre-training step on a GPU, beside transformers, and as a share of what the GPU can do.

    python benchmarks/gpu.py                    # base and large, under 5 minutes
    python benchmarks/gpu.py --sizes base       # one of them
    python benchmarks/gpu.py --device cpu --tiny   # seconds, to see that it runs

A step is what `bertkit pretrain` does: batch from pinned memory, forward, backward, clipping and
AdamW, dropout 0.1 everywhere, 15 % of the tokens masked, next sentence, a vocabulary of 30,522, on
random tokens in bf16. transformers is `BertForPreTraining` under bf16 autocast with fused AdamW,
with its attention back-ends, compiled or not. Inputs: full sequences of 128 and of 512 tokens,
and lengths uniform in 16 to 128, which transformers pads. Tokens are real ones, never padding.

FLOPs are the needed ones, for both sides: logits at masked positions only, and only these tokens
and [CLS] through the last layer's dense part; no recomputation counts. The share is of the bf16
matrix product that is measured first. Each part is guarded: what fails, or has no time left, is
named, and the others are printed. The last line is JSON; the exit code is 1 where numbers differ
or a loss does not fall.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import ModelConfig, model_config
from bertkit.model.encoder import set_compiled, set_compute_dtype
from bertkit.pretraining.objectives import MaskedLMAndNextSentence
from bertkit.speed import peer
from bertkit.speed.roofline import processor
from bertkit.speed.steps import (
    LEARN,
    SHORTEST,
    Step,
    Tokens,
    pretraining_batch,
    pretraining_flops,
    random_tokens,
    training_step,
)
from bertkit.training.batch import Batch
from bertkit.training.compilation import compiles
from bertkit.training.device import choose_device, synchronize

OURS = "bertkit"
PEERS = (
    "sdpa",
    "sdpa compile",
    "flash_attention_2",
    "flash_attention_2 compile",
)
BATCHES = 4
"""Different ones where lengths vary."""


@dataclass
class Input:
    """One shape of input: its name and its batches."""

    name: str
    batches: list[Tokens]

    @property
    def tokens(self) -> float:
        """Real tokens of a step, in the mean."""
        return statistics.fmean(batch.count for batch in self.batches)


@dataclass
class Row:
    """What was measured of one side on one input."""

    size: str
    input: str
    side: str
    tokens_per_second: float
    spread: float
    milliseconds: float
    teraflops: float
    share_of_peak: float | None
    peak_gib: float | None
    first_loss: float
    last_loss: float


@dataclass
class Report:
    """Everything that was found; `left_out` says what was not, and `wrong` what should not be."""

    device: str
    peak: dict[str, float] = field(default_factory=dict)
    equality: dict[str, float] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Plan:
    """What to measure, on what, and until when."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = choose_device(options.device)
        self.tiny, self.began, self.limit = options.tiny, time.monotonic(), options.seconds
        self.vocabulary = 2000 if self.tiny else 30522
        self.sizes = {"tiny": "2x32x2"} if self.tiny else {name: name for name in options.sizes}
        self.tokens = 128 if self.tiny else options.tokens
        self.rounds, self.steps = (2, 2) if self.tiny else (3, 5)
        self.warm = 2 if self.tiny else 5

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def inputs(self) -> list[Input]:
        """Full sequences of two lengths, and lengths that vary."""
        short, long = (32, 64) if self.tiny else (128, 512)
        found = [
            Input(
                f"{self.tokens // length} x {length}",
                [random_tokens(self.tokens // length, length, vocabulary=self.vocabulary)],
            )
            for length in (short, long)
        ]
        count = self.tokens // short
        varied = [
            random_tokens(count, short, True, self.vocabulary, seed) for seed in range(BATCHES)
        ]
        return [*found, Input(f"{count} x {SHORTEST}..{short}", varied)]


def our_step(plan: Plan, sizes: ModelConfig, made: list[Tokens]) -> Step:
    """A step of bertkit's own training, with its defaults for a long run."""
    torch.manual_seed(0)
    model = PretrainingModel(sizes)
    batches = [pretraining_batch(one) for one in made]
    if plan.on_gpu:
        batches = [batch.pinned() for batch in batches]
    return training_step(model, MaskedLMAndNextSentence(), batches, "bf16", plan.device)


def peer_step(plan: Plan, sizes: ModelConfig, made: list[Tokens], setting: str) -> Step:
    """The same step with transformers."""
    batches = [peer.pretraining_batch(one) for one in made]
    if plan.on_gpu:
        batches = [{name: value.pin_memory() for name, value in one.items()} for one in batches]
    return peer.training_step(peer_model(sizes, setting), batches, setting, plan.device)


def peer_model(sizes: ModelConfig, setting: str) -> Any:
    from transformers import BertForPreTraining

    torch.manual_seed(0)
    return BertForPreTraining(peer.bert_config(sizes, setting))


def timed(plan: Plan, step: Step) -> tuple[list[float], list[float]]:
    """Seconds a step in each round, after warm ones, and the losses of all steps."""
    losses = [step() for _ in range(plan.warm)]
    seconds = []
    for _ in range(plan.rounds):
        synchronize(plan.device)
        began = time.perf_counter()
        losses += [step() for _ in range(plan.steps)]
        synchronize(plan.device)
        seconds.append((time.perf_counter() - began) / plan.steps)
    return seconds, losses


def measure_side(plan: Plan, report: Report, size: str, shape: Input, side: str) -> None:
    """Adds a row."""
    sizes = model_config(plan.sizes[size], plan.vocabulary)
    made = shape.batches
    if plan.on_gpu:
        torch.cuda.reset_peak_memory_stats(plan.device)
    if side == OURS:
        step = our_step(plan, sizes, made)
    else:
        step = peer_step(plan, sizes, made, f"bf16 {side}")
    seconds, losses = timed(plan, step)
    peak = torch.cuda.max_memory_allocated(plan.device) / 2**30 if plan.on_gpu else None
    each = statistics.median(seconds)
    teraflops = statistics.mean(pretraining_flops(sizes, one) for one in made) / each / 1e12
    limit = report.peak.get("bf16_teraflops")
    report.rows.append(
        Row(
            size,
            shape.name,
            side,
            round(shape.tokens / each, 1),
            round((max(seconds) - min(seconds)) / each, 4),
            round(1000 * each, 3),
            round(teraflops, 4),
            limit and round(teraflops / limit, 4),
            peak and round(peak, 2),
            round(losses[0], 4),
            round(losses[-1], 4),
        )
    )
    say(f"{size} {shape.name} {side}: {shape.tokens / each:,.0f} tokens/s")
    if not all(map(math.isfinite, losses)):
        report.wrong.append(f"{size} {shape.name} {side}: a loss is not finite")
    elif side == OURS and not plan.tiny and losses[-1] >= losses[0]:
        report.wrong.append(f"{size} {shape.name}: the loss does not fall in {len(losses)} steps")


def measure_peak(plan: Plan, report: Report) -> None:
    """Matrix products and copies: the limits of this device."""
    side = 256 if plan.tiny else 8192

    def best(run: Callable[[], object]) -> float:
        found = []
        for _ in range(2 if plan.tiny else 10):
            synchronize(plan.device)
            began = time.perf_counter()
            for _ in range(4):
                run()
            synchronize(plan.device)
            found.append((time.perf_counter() - began) / 4)
        return min(found)

    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        left, right = (torch.randn(side, side, device=plan.device, dtype=dtype) for _ in range(2))
        out = torch.empty_like(left)
        seconds = best(lambda a=left, b=right, c=out: torch.mm(a, b, out=c))  # type: ignore[misc]
        report.peak[f"{name}_teraflops"] = round(2 * side**3 / seconds / 1e12, 4)
    source = torch.zeros(side * side, device=plan.device)
    target = torch.empty_like(source)
    seconds = best(lambda: target.copy_(source))
    report.peak["gigabytes_per_second"] = round(2 * 4 * side**2 / seconds / 1e9, 1)


def gradients_of(model: PretrainingModel, batch: Batch) -> list[torch.Tensor]:
    """The loss and every gradient, on the CPU in float32."""
    model.zero_grad()
    sums = MaskedLMAndNextSentence()(model, batch.to(next(model.parameters()).device))
    sum(sums.losses.values()).backward()  # type: ignore[union-attr]
    loss = sum(float(value.detach()) for value in sums.losses.values())
    return [torch.tensor([loss]), *(p.grad.float().cpu() for p in model.parameters())]  # type: ignore


def check_equality(plan: Plan, report: Report) -> None:
    """A small model in float32 on the CPU, and on the device: the largest error of a gradient, as
    a share of the largest gradient of its tensor."""
    sizes = model_config("2x128x2", 2000, hidden_dropout=0.0, attention_dropout=0.0)
    torch.manual_seed(0)
    model = PretrainingModel(sizes)
    batch = pretraining_batch(random_tokens(4, 64, varied=True, vocabulary=2000))
    exact = gradients_of(model, batch)
    model.to(plan.device)
    for name, dtype, compile, tolerance in (
        ("float32", torch.float32, False, 1e-3),
        ("float32 compile", torch.float32, True, 1e-3),
        ("bf16", torch.bfloat16, False, 0.2),
        ("bf16 compile", torch.bfloat16, True, 0.2),
    ):
        if compile and not compiles("auto", LEARN.steps, plan.device):
            continue
        set_compute_dtype(model, dtype)
        set_compiled(model, compile)
        found = gradients_of(model, batch)
        error = max(
            float((one - other).abs().max() / other.abs().max().clamp(min=1e-12))
            for one, other in zip(found, exact, strict=True)
        )
        report.equality[name] = float(f"{error:.3g}")
        if not error <= tolerance:
            report.wrong.append(f"{name} differs from float32 on a CPU by {error:.3g}")


def told(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(plan: Plan, peers: list[str]) -> Report:
    """Goes through the parts, the most wanted first, until the time is over."""
    report = Report(processor(plan.device))
    shapes = plan.inputs()
    parts: list[tuple[str, Callable[[], None]]] = [
        ("peak", lambda: measure_peak(plan, report)),
        ("equality", lambda: check_equality(plan, report)),
    ]

    def add(size: str, shape: Input, side: str) -> None:
        what = f"{size} {shape.name} {side}"
        parts.append((what, lambda: measure_side(plan, report, size, shape, side)))

    for size in plan.sizes:
        for shape in shapes:
            add(size, shape, OURS)
    # Full short sequences first; of the others only what was best there.
    for size in plan.sizes:
        for side in peers:
            add(size, shapes[0], side)
    for what, part in parts:
        guarded(plan, report, what, part)
    for shape, size in itertools.product(shapes[1:], plan.sizes):
        known = [row for row in report.rows if row.size == size and row.side != OURS]
        if known:
            side = max(known, key=lambda row: row.tokens_per_second).side
            guarded(
                plan,
                report,
                f"{size} {shape.name} {side}",
                lambda size=size, shape=shape, side=side: measure_side(  # type: ignore[misc]
                    plan, report, size, shape, side
                ),
            )
    report.seconds = round(plan.seconds(), 1)
    return report


def guarded(plan: Plan, report: Report, what: str, part: Callable[[], None]) -> None:
    """Runs a part; what it raises is written down, and the memory is free for the next."""
    if plan.seconds() > plan.limit:
        report.left_out.append(f"{what}: no time left")
        return
    try:
        part()
    except Exception as error:
        report.left_out.append(f"{what}: {told(error)}")
        say(report.left_out[-1])
    gc.collect()
    if plan.on_gpu:
        torch.cuda.empty_cache()


def table(report: Report) -> str:
    """The rows as text."""
    lines = [
        f"pre-training step in bf16, {report.device}, torch {torch.__version__}",
        ", ".join(f"{name} {value:,}" for name, value in report.peak.items()),
        f"{'model':<7}{'input':<15}{'side':<34}{'tokens/s':>11}{'ms/step':>10}{'TFLOP/s':>9}"
        f"{'of peak':>9}{'GiB':>7}{'loss':>16}",
    ]
    for row in report.rows:
        name = row.side if row.side == OURS else f"transformers {row.side}"
        share = f"{row.share_of_peak:.1%}" if row.share_of_peak is not None else "-"
        memory = f"{row.peak_gib:.1f}" if row.peak_gib is not None else "-"
        loss = f"{row.first_loss:.2f} > {row.last_loss:.2f}"
        lines.append(
            f"{row.size:<7}{row.input:<15}{name:<34}{row.tokens_per_second:>11,.0f}"
            f"{row.milliseconds:>10.2f}{row.teraflops:>9.1f}{share:>9}{memory:>7}{loss:>16}"
        )
    for name, error in report.equality.items():
        lines.append(f"{name} beside float32 on a CPU: largest relative error {error:g}")
    lines += [f"left out: {what}" for what in report.left_out]
    lines += [f"WRONG: {what}" for what in report.wrong]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--sizes", nargs="+", default=["base", "large"])
    parser.add_argument("--tokens", type=int, default=32768, help="places for tokens in a step")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--seconds", type=float, default=200, help="no part begins after so many seconds"
    )
    parser.add_argument("--tiny", action="store_true", help="a toy, to see that it runs")
    options = parser.parse_args(arguments)
    plan = Plan(options)
    if not plan.on_gpu and not options.tiny:
        parser.error("there is no GPU here; --device cpu --tiny shows that the script runs")
    report = measure(plan, options.peers)
    print(table(report))
    head = {"benchmark": "gpu", "torch": torch.__version__, "tiny": options.tiny}
    print(json.dumps(head | dataclasses.asdict(report)))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
