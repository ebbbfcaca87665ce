"""The objective of the paper: masked LM plus next sentence, added without weights (A.2)."""

from __future__ import annotations

import torch
from torch import nn

from bertkit.model.bert import PretrainingModel
from bertkit.training.batch import Batch
from bertkit.training.loop import LossSums


class MaskedLMAndNextSentence:
    """Losses named "mlm" (a term for each masked token) and "nsp" (one for each sequence)."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {
            "mlm": batch.targets["masked"].numel(),
            "nsp": batch.targets["next_sentence"].numel(),
        }

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        assert isinstance(model, PretrainingModel)
        counts = self.counts(batch)
        losses = model.losses(
            batch.inputs,
            batch.targets["masked"],
            batch.targets["masked_ids"],
            batch.targets["next_sentence"],
        )
        assert losses.nsp_loss is not None and losses.nsp_correct is not None
        return LossSums(
            losses={"mlm": losses.mlm_loss, "nsp": losses.nsp_loss},
            metrics={
                "mlm_accuracy": (losses.mlm_correct, counts["mlm"]),
                "nsp_accuracy": (losses.nsp_correct, counts["nsp"]),
            },
        )


def evaluate(
    model: nn.Module, batches: list[Batch], objective: MaskedLMAndNextSentence
) -> dict[str, float]:
    """Means of the losses and accuracies over held-out batches, and the masked LM's perplexity."""
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    for batch in batches:
        sums = objective(model, batch.to(next(model.parameters()).device))
        for name, count in objective.counts(batch).items():
            totals[f"{name}_loss"] = totals.get(f"{name}_loss", 0.0) + float(sums.losses[name])
            counts[f"{name}_loss"] = counts.get(f"{name}_loss", 0) + count
        for name, (value, count) in sums.metrics.items():
            totals[name] = totals.get(name, 0.0) + float(value)
            counts[name] = counts.get(name, 0) + count
    means = {name: total / counts[name] for name, total in totals.items()}
    means["loss"] = means["mlm_loss"] + means["nsp_loss"]
    means["mlm_perplexity"] = float(torch.tensor(means["mlm_loss"], dtype=torch.float64).exp())
    return means
