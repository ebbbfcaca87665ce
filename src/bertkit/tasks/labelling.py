"""What classification and tagging share: one label for each place asked, by cross-entropy.

Classification asks at [CLS], tagging at the first sub-token of each word (paper, sections 4.1
and 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertkit.tasks.batches import flat_inputs
from bertkit.tasks.task import Features
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums

Logits = Callable[[nn.Module, Batch], Tensor]
"""(model, batch) -> [answers, labels]."""


def collate(features: Sequence[Features]) -> Batch:
    """One micro-batch; `targets` holds "asked" [answers], index into the tokens, and "labels"."""
    inputs = flat_inputs(features)
    starts = inputs.bounds[:-1].numpy()
    asked = np.concatenate(
        [np.asarray(f.asked) + start for f, start in zip(features, starts, strict=True)]
    )
    labels = [label for f in features for label in f.targets]
    return Batch(
        inputs,
        {"asked": torch.from_numpy(asked), "labels": torch.tensor(labels, dtype=torch.int64)},
    )


class LabelObjective:
    """Cross-entropy of the right labels, one for each answer asked."""

    def __init__(self, logits: Logits) -> None:
        self._logits = logits

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"label": batch.targets["labels"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        logits, labels = self._logits(model, batch), batch.targets["labels"]
        right = (logits.detach().argmax(dim=1) == labels).sum()
        loss = F.cross_entropy(logits.float(), labels, reduction="sum")
        return LossSums({"label": loss}, {"accuracy": (right, labels.numel())})


def probabilities(
    logits: Logits, model: nn.Module, batch: Batch, features: Sequence[Features]
) -> list[np.ndarray]:
    """[answers, labels] float32 of each sequence."""
    rows = logits(model, batch).float().softmax(dim=1).cpu().numpy()
    ends = np.cumsum([len(one.asked) for one in features])
    return np.split(rows, ends[:-1])
