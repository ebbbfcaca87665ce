"""A small classification training for the loop's tests."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bertkit.model.batch import FlatBatch
from bertkit.model.bert import ClassificationModel
from bertkit.model.config import model_config
from bertkit.training.batch import Batch
from bertkit.training.objective import BatchSource, LossSums


def small_model(seed: int = 0) -> ClassificationModel:
    torch.manual_seed(seed)
    return ClassificationModel(model_config("2x32x2", 60), ["no", "yes"])


class RandomBatches(BatchSource):
    """Is token 7 in the sequence? Batches are a pure function of the step."""

    def __init__(self, sequences: int = 8, micro: int = 4) -> None:
        self.sequences, self.micro = sequences, micro
        self.asked: list[int] = []

    def step(self, step: int) -> list[Batch]:
        self.asked.append(step)
        generator = torch.Generator().manual_seed(step)
        lengths = torch.randint(3, 20, (self.sequences,), generator=generator).tolist()
        ids = [torch.randint(5, 60, (n,), generator=generator).tolist() for n in lengths]
        labels = [k % 2 for k in range(self.sequences)]
        for row, label in zip(ids, labels, strict=True):
            row[1:] = [7 if label else 8 for _ in row[1:]]
        return [
            Batch(
                FlatBatch.from_sequences(ids[k : k + self.micro]),
                {"labels": torch.tensor(labels[k : k + self.micro])},
            )
            for k in range(0, self.sequences, self.micro)
        ]


class Classify:
    def counts(self, batch: Batch) -> dict[str, int]:
        return {"label": len(batch.targets["labels"])}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        logits, labels = model(batch.inputs), batch.targets["labels"]
        return LossSums(
            {"label": F.cross_entropy(logits, labels, reduction="sum")},
            {"accuracy": ((logits.argmax(1) == labels).sum(), len(labels))},
        )
