"""A model made ready to be trained: one way, whoever trains it."""

from __future__ import annotations

import torch
from torch import nn

from bertkit.model.encoder import set_activation_checkpointing, set_compiled, set_compute_dtype
from bertkit.training.allocator import keep_memory
from bertkit.training.compilation import compiles
from bertkit.training.config import TrainOptions
from bertkit.training.optimizer import make_optimizer
from bertkit.training.precision import compute_dtype
from bertkit.training.processes import Processes


def make_ready(
    model: nn.Module, options: TrainOptions, processes: Processes
) -> torch.optim.Optimizer:
    """Puts a model on its device, to compute as the options say; returns its optimizer.

    From then on the process keeps the memory it frees (`bertkit.training.allocator`).
    """
    keep_memory()
    device = processes.device
    model.to(device).train()
    set_compute_dtype(model, compute_dtype(options.precision, device))
    set_activation_checkpointing(model, options.activation_checkpointing)
    set_compiled(model, compiles(options.compile, options.steps, device))
    return make_optimizer(model, options, processes)
