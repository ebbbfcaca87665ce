"""`bertkit pretrain --dry-run`: what a run would take, from a few passes; nothing is written.

FLOPs    2 a weight and token forward, twice that backward; attention's two products are
         4 · hidden · length² a sequence and layer; the vocabulary counts at predicted tokens only
memory   this process after passes and updates like those of the run, as large as time allows; what
         a micro-batch of full sequences keeps beyond theirs comes on top, by the activations of a
         token and the logits of one chunk
time     of those passes and of one update, for all the steps and evaluations
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn

from bertkit.model.config import ModelConfig
from bertkit.model.encoder import set_activation_checkpointing
from bertkit.model.flops import training_flops
from bertkit.model.heads import chunk_rows
from bertkit.pretraining.batches import PretrainingSource, to_batch
from bertkit.pretraining.config import PretrainConfig
from bertkit.pretraining.facts import budget_of
from bertkit.pretraining.phases import Phase, phase_steps
from bertkit.progress import say
from bertkit.training.batch import Batch
from bertkit.training.budget import Costs
from bertkit.training.checkpoint import most_points, point_bytes
from bertkit.training.config import TrainOptions
from bertkit.training.device import synchronize
from bertkit.training.objective import Objective
from bertkit.training.precision import compute_dtype
from bertkit.training.processes import Processes
from bertkit.training.ready import make_ready

PASS_SECONDS = 3.0
"""Sequences are added to the measured pass until it takes this long."""

HOLES = 0.25
"""Of the activations beyond the largest pass: so much more, for the pieces of memory that backward
needs in between and those that fit nowhere."""

FEWEST_STEPS, MOST_STEPS, STEPS_SECONDS = 3, 8, 4.0
"""Then so many steps are made, fewer where they take longer than that together: the allocator
needs some until its pieces fit."""


@dataclass
class PhaseNeeds:
    """One phase: its steps, mean tokens and FLOPs of a step, and seconds that a step takes."""

    sequence_length: int
    steps: int
    tokens_per_step: float
    flops_per_step: float
    seconds_per_step: float


@dataclass
class DryRun:
    """What a run would take.

    Attributes:
        memory: bytes by part, at the longest sequences; "process" is the rest: Python, libraries,
            the epoch's plan, buffers, and what the allocator cannot use.
        memory_here: bytes of the memory here, the machine's or the GPU's.
        disk: bytes by part, of the restart points that stay, the one being written, the result.
        seconds: of all steps and evaluations.
    """

    parameters: int
    steps: int
    phases: list[PhaseNeeds]
    memory: dict[str, int]
    memory_here: int
    disk: dict[str, int]
    seconds: float

    @property
    def tokens(self) -> float:
        return sum(phase.steps * phase.tokens_per_step for phase in self.phases)

    @property
    def flops(self) -> float:
        return sum(phase.steps * phase.flops_per_step for phase in self.phases)

    def __str__(self) -> str:
        rows = [
            ("parameters", f"{self.parameters:,}"),
            ("steps", f"{self.steps:,}"),
            ("tokens", f"{self.tokens:.3g}"),
            ("FLOPs", f"{self.flops:.3g}"),
        ]
        rows += [
            (
                f"phase of {phase.sequence_length}",
                f"{phase.steps:,} steps of {phase.tokens_per_step:,.0f} tokens, "
                f"{phase.flops_per_step:.3g} FLOPs and {phase.seconds_per_step:.3g} s",
            )
            for phase in self.phases
        ]
        rows += [(f"memory: {part}", _bytes(size)) for part, size in self.memory.items()]
        rows.append(
            ("memory", f"{_bytes(sum(self.memory.values()))} of {_bytes(self.memory_here)} here")
        )
        rows += [(f"disk: {part}", _bytes(size)) for part, size in self.disk.items()]
        rows.append(("time", f"{_duration(self.seconds)}, restart points not counted"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def dry_run(
    config: PretrainConfig,
    model: nn.Module,
    objective: Objective,
    phases: Sequence[Phase],
    sources: Sequence[PretrainingSource],
    held_out: Sequence[Batch],
    options: TrainOptions,
    device: torch.device,
) -> DryRun:
    """Works out what the run would take; trains `model` a little on the way, on `device`."""
    sizes: ModelConfig = model.config  # type: ignore[assignment]
    say("measuring a few passes; nothing is written", config.quiet)
    optimizer = make_ready(model, options, Processes(0, 1, device))
    dtype = compute_dtype(options.precision, device)
    size = min(config.micro_batch_size, config.batch_size)
    activations = _activations_per_token(model, objective, sources[-1])
    longest = _probe(model, objective, optimizer, sources[-1], size)
    resident = _resident_bytes(device)
    probes = [_probe(model, objective, optimizer, source, size) for source in sources[:-1]]
    probes.append(longest)
    if options.activation_checkpointing:
        # While a block is computed again, its activations are there besides.
        set_activation_checkpointing(model, False)
        plain = _activations_per_token(model, objective, sources[-1])
        activations += (plain - activations) / sizes.layers
    needs = _phase_needs(config, sizes, sources, probes)
    held_out_tokens = sum(batch.inputs.tokens for batch in held_out)
    # An evaluation has no backward pass, which takes two thirds, or three quarters where it
    # computes the blocks again.
    forward = 1 / 4 if options.activation_checkpointing else 1 / 3
    evaluation = held_out_tokens * longest.seconds_per_token * forward
    for need, count in zip(needs, _steps(config, phases, needs, evaluation), strict=True):
        need.steps = count
    steps = sum(need.steps for need in needs)
    evaluations = steps // config.evaluate_steps if config.evaluate_steps else 1
    kept = _Kept(model, sizes, optimizer, dtype, activations, _predicted_share(config), device)
    full = size * config.sequence_length
    process = max(0, resident - sum(kept.parts(longest.tokens).values()))
    process += round(HOLES * activations * max(0, full - longest.tokens))
    disk = {"result": kept.weights}
    if config.checkpoint_steps:
        points = most_points(replace(options, steps=steps))
        disk["restart points"] = points * point_bytes(model)
    return DryRun(
        parameters=sum(p.numel() for p in model.parameters()),
        steps=steps,
        phases=needs,
        memory={"process": process, **kept.parts(full)},
        memory_here=_memory(device),
        disk=disk,
        seconds=sum(need.steps * need.seconds_per_step for need in needs)
        + evaluations * evaluation,
    )


def _predicted_share(config: PretrainConfig) -> float:
    """Of the tokens, those that the objective predicts."""
    return 1.0 if config.objective == "ltr" else config.mask_rate


def _phase_needs(
    config: PretrainConfig,
    sizes: ModelConfig,
    sources: Sequence[PretrainingSource],
    probes: Sequence[_Probed],
) -> list[PhaseNeeds]:
    """What a step of each phase takes; of how many steps it has, nothing yet."""
    needs = []
    for source, probe in zip(sources, probes, strict=True):
        lengths = source.plan(0)["length"].astype(float)
        tokens = float(config.batch_tokens or config.batch_size * lengths.mean())
        flops = training_flops(sizes, lengths, _predicted_share(config)) * tokens
        needs.append(
            PhaseNeeds(
                source.options.sequence_length,
                0,
                tokens,
                flops * (4 / 3 if config.activation_checkpointing else 1),
                probe.seconds_per_token * tokens + probe.update_seconds,
            )
        )
    return needs


def _steps(
    config: PretrainConfig,
    phases: Sequence[Phase],
    needs: Sequence[PhaseNeeds],
    evaluation: float,
) -> list[int]:
    """The steps of each phase, of the whole run or as many as fit the minutes."""
    if config.max_minutes is None:
        return phase_steps(phases, config.steps)
    costs = Costs(tuple(need.seconds_per_step for need in needs), evaluation)
    ends = budget_of(config, phases).plan(costs).phase_ends
    return [end - begin for begin, end in pairwise((0, *ends))]


class _Kept:
    """What a training holds in memory, by part."""

    def __init__(
        self,
        model: nn.Module,
        sizes: ModelConfig,
        optimizer: torch.optim.Optimizer,
        dtype: torch.dtype,
        activations: float,
        predicted: float,
        device: torch.device,
    ) -> None:
        self.weights = sum(p.numel() * p.element_size() for p in model.parameters())
        self.copies = 0 if dtype == torch.float32 else self.weights * dtype.itemsize // 4
        self.moments = sum(
            value.numel() * value.element_size()
            for values in optimizer.state.values()
            for value in values.values()
        )
        self.activations, self.predicted = activations, predicted
        self.vocabulary = sizes.vocab_size
        self.chunk = chunk_rows(device)

    def parts(self, tokens: float) -> dict[str, int]:
        """Bytes by part where a micro-batch has so many tokens."""
        rows = min(self.chunk, round(tokens * self.predicted))
        return {
            "weights": self.weights + self.copies,
            "gradients": self.weights,
            "optimizer": self.moments,
            "activations": round(self.activations * tokens),
            "logits": 4 * rows * self.vocabulary,
        }


@dataclass
class _Probed:
    """The largest step of a phase: its tokens, and seconds for each and for the update."""

    tokens: int
    seconds_per_token: float
    update_seconds: float


def _probe(
    model: nn.Module,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    source: PretrainingSource,
    most: int,
) -> _Probed:
    """Passes over more and more sequences of a phase, `most` of them, until one takes long; then
    steps of that size."""
    _update(model, optimizer)  # the optimizer's state is there when large passes need memory
    count = 1
    device = next(model.parameters()).device
    if device.type != "cpu":  # its first pass compiles kernels and sets up libraries
        _pass(model, objective, to_batch(source.examples(0, 1)[0]).to(device))
    while True:
        rows = min(count, len(source.plan(0)))
        batch = to_batch(source.examples(0, rows)[0]).to(device)
        began = time.monotonic()
        _pass(model, objective, batch)
        took = time.monotonic() - began
        if took >= PASS_SECONDS or count >= most or rows < count:
            break
        count = min(2 * count, most)
    passes: list[float] = []
    updates: list[float] = []
    while len(passes) < MOST_STEPS:
        began = time.monotonic()
        _pass(model, objective, batch)
        passed = time.monotonic()
        _update(model, optimizer)
        passes.append(passed - began)
        updates.append(time.monotonic() - passed)
        if len(passes) >= FEWEST_STEPS and sum(passes) >= STEPS_SECONDS:
            break
    tokens = batch.inputs.tokens
    return _Probed(tokens, median(passes) / tokens, median(updates))


def _activations_per_token(
    model: nn.Module, objective: Objective, source: PretrainingSource
) -> float:
    """Bytes that a token of a full sequence leaves for the backward pass: what two sequences leave
    more than one, for weights and their copies are there once."""
    longest = np.argsort(-source.plan(0)["length"].astype(np.int64), kind="stable")[:2]
    device = next(model.parameters()).device
    batches = [to_batch(source.build(0, longest[:count])).to(device) for count in (1, len(longest))]
    kept = [_pass(model, objective, batch) for batch in batches]
    tokens = [batch.inputs.tokens for batch in batches]
    if tokens[0] == tokens[1]:  # a corpus of one example
        return kept[0] / tokens[0]
    return (kept[1] - kept[0]) / (tokens[1] - tokens[0])


def _pass(model: nn.Module, objective: Objective, batch: Batch) -> int:
    """Forward and backward; returns the bytes that were kept in between."""
    seen: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.zero_grad(set_to_none=True)  # as a step leaves them
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        sums = objective(model, batch)
        counts = objective.counts(batch)
        loss = torch.stack([sums.losses[name] / max(1, counts[name]) for name in counts]).sum()
    loss.backward()
    synchronize(loss.device)
    return sum(seen.values())


def _update(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Clipping and an update."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
    synchronize(next(model.parameters()).device)


def _memory(device: torch.device) -> int:
    """Bytes of the memory that a training on the device has to fit in."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _resident_bytes(device: torch.device) -> int:
    """What this process has in the memory that `_memory` tells the size of; 0 where the system
    does not say (Linux does)."""
    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    listing = Path("/proc/self/statm")
    if not listing.exists():
        return 0
    return int(listing.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
