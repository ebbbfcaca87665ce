"""The micro-batch: what one forward and backward pass takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from bertkit.files import writing
from bertkit.model.batch import FlatBatch, moved


@dataclass
class Batch:
    """One micro-batch: the encoder's input and what the objective compares its output with."""

    inputs: FlatBatch
    targets: dict[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Batch:
        return self.map(lambda tensor: moved(tensor, device))

    def pinned(self) -> Batch:
        """The same in pinned memory, from which a GPU copies while the host goes on."""
        return self.map(Tensor.pin_memory)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The micro-batch with another form of each tensor."""
        return Batch(
            inputs=self.inputs.map(change),
            targets={name: change(tensor) for name, tensor in self.targets.items()},
        )


def save_batches(batches: Mapping[int, Batch], path: Path) -> None:
    """Writes micro-batches for inspection, by their numbers: `0/token_ids`, `0/bounds`, ...

    Raises UserError when the disk is full.
    """
    tensors: dict[str, Tensor] = {}
    for number, batch in batches.items():
        inputs = batch.inputs
        of_batch = {
            "token_ids": inputs.token_ids,
            "segment_ids": inputs.segment_ids,
            "positions": inputs.positions,
            "bounds": inputs.bounds,
            **batch.targets,
        }
        tensors |= {f"{number}/{name}": value.clone() for name, value in of_batch.items()}
    with writing(path) as partial:
        save_file(tensors, partial)
