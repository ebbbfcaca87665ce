"""The micro-batch: what one forward and backward pass takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bertkit.model.batch import FlatBatch


@dataclass
class Batch:
    """One micro-batch: the encoder's input and what the objective compares its output with."""

    inputs: FlatBatch
    targets: dict[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Batch:
        return Batch(
            inputs=self.inputs.to(device),
            targets={name: tensor.to(device) for name, tensor in self.targets.items()},
        )
