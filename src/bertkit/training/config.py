"""Options that every training by gradient shares. Stages copy them from their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["auto", "fp32", "bf16"]
Compile = Literal["auto", "on", "off"]
Schedule = Literal["linear", "cosine", "constant", "wsd"]
OptimizerName = Literal["adamw", "adam-paper", "lamb"]


@dataclass
class TrainOptions:
    """How to train. The defaults of the optimizer are the reference release's (optimization.py).

    Attributes:
        steps: updates of the weights.
        learning_rate: the peak, reached at the end of the warm-up.
        warmup_steps: steps of linear rise from near zero.
        schedule: how the rate goes on after the warm-up; see `schedule.py`.
        decay: the share of the steps, the last ones, in which "wsd" falls.
        reference_warmup: the reference's warm-up, with its jump at the end; see `schedule.py`.
        optimizer: see `optimizer.py`.
        layer_decay: the rate of each layer as a share of that of the layer above; see
            `rate_share` in `optimizer.py`.
        clip_norm: the gradient's global L2 norm is scaled down to this; 0 leaves it alone.
        log_steps: steps from one line of the log to the next.
        evaluate_steps: steps from one evaluation to the next; 0 evaluates at the end only.
        checkpoint_steps: steps from one restart point to the next; 0 writes one only when the
            run is interrupted.
        keep_checkpoints: restart points that stay on disk.
        keep_best: also keep the restart point with the lowest held-out loss.
        activation_checkpointing: remember each layer's input only and compute the rest again in
            the backward pass: less memory, a third more work, the same numbers.
        shard_optimizer: with many processes, each keeps the optimizer's moments of its share of the
            parameters only.
        compile: whether `torch.compile` makes the kernels of a block's dense part; "auto" in long
            runs on a GPU (see `compilation.compiles`).
        workers: threads that build batches in the background, 0 builds them between the steps;
            the batches are the same.
    """

    steps: int
    learning_rate: float
    warmup_steps: int = 0
    schedule: Schedule = "linear"
    decay: float = 0.1
    reference_warmup: bool = False
    optimizer: OptimizerName = "adamw"
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0
    precision: Precision = "auto"
    compile: Compile = "auto"
    seed: int = 0
    log_steps: int = 10
    evaluate_steps: int = 0
    checkpoint_steps: int = 0
    keep_checkpoints: int = 2
    keep_best: bool = False
    activation_checkpointing: bool = False
    shard_optimizer: bool = False
    workers: int = 1
    quiet: bool = False
