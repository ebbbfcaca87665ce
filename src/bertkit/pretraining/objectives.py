"""What pre-training learns: the paper's two tasks (3.1, A.1), and the variants of its ablations.

mlm+nsp   masked LM plus next sentence, added without weights (A.2)
mlm       masked LM alone
mlm+sop   masked LM plus sentence order: are the two segments swapped (ALBERT)?
ltr       left to right: every token from those before it, under a causal mask (5.1)
"""

from __future__ import annotations

import torch
from torch import nn

from bertkit.errors import UserError
from bertkit.model.bert import LeftToRightModel, MaskedLMModel, PretrainingModel
from bertkit.model.config import ModelConfig
from bertkit.pretraining.config import ObjectiveName, Pairs, PretrainConfig
from bertkit.training.batch import Batch
from bertkit.training.loop import LossSums, Objective

PAIRS_OF: dict[ObjectiveName, tuple[Pairs, ...]] = {
    "mlm+nsp": ("nsp", "nsp-sentence"),
    "mlm": ("full-sentences", "doc-sentences", "nsp", "nsp-sentence"),
    "mlm+sop": ("sop",),
    "ltr": ("full-sentences", "doc-sentences", "nsp", "nsp-sentence"),
}
"""The kinds of examples that an objective can learn from, its default first. "No NSP" of the
paper's table 5 is `mlm` on `nsp` pairs."""


class MaskedLMAndNextSentence:
    """Losses named "mlm" (a term for each masked token) and "nsp" or "sop" (one a sequence)."""

    def __init__(self, sentences: str = "nsp") -> None:
        self.sentences = sentences

    def counts(self, batch: Batch) -> dict[str, int]:
        return {
            "mlm": batch.targets["masked"].numel(),
            self.sentences: batch.targets["next_sentence"].numel(),
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
            losses={"mlm": losses.mlm_loss, self.sentences: losses.nsp_loss},
            metrics={
                "mlm_accuracy": (losses.mlm_correct, counts["mlm"]),
                f"{self.sentences}_accuracy": (losses.nsp_correct, counts[self.sentences]),
            },
        )


class TokenPrediction:
    """One loss, a term for each token that is predicted: masked ("mlm") or next ("ltr")."""

    def __init__(self, name: str) -> None:
        self.name = name

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: batch.targets["masked"].numel()}

    def __call__(self, model: nn.Module, batch: Batch) -> LossSums:
        assert isinstance(model, MaskedLMModel)
        sums = model.losses(batch.inputs, batch.targets["masked"], batch.targets["masked_ids"])
        return LossSums(
            losses={self.name: sums.loss},
            metrics={f"{self.name}_accuracy": (sums.correct, self.counts(batch)[self.name])},
        )


def make_objective(name: ObjectiveName) -> Objective:
    """The objective of that name."""
    if name == "mlm+nsp":
        return MaskedLMAndNextSentence()
    return MaskedLMAndNextSentence("sop") if name == "mlm+sop" else TokenPrediction(name)


def model_class(name: ObjectiveName) -> type[nn.Module]:
    """The family with the heads that the objective trains, and no others."""
    if name == "ltr":
        return LeftToRightModel
    return MaskedLMModel if name == "mlm" else PretrainingModel


def make_model(name: ObjectiveName, sizes: ModelConfig) -> nn.Module:
    """A fresh model of the objective's family."""
    return model_class(name)(sizes)


def pairs_of(config: PretrainConfig) -> Pairs:
    """What the configuration's examples are.

    Raises UserError where its options contradict each other.
    """
    objective, masks = (
        config.objective,
        ("mask_rate", "max_predictions", "mask_split", "mask_units"),
    )
    if objective == "ltr":
        default = PretrainConfig(corpus="", output="")
        for option in masks:
            if getattr(config, option) != getattr(default, option):
                raise UserError(
                    f"--{option.replace('_', '-')} is for masked LM, and --objective ltr predicts "
                    "every next token; leave it out"
                )
    if config.duplicates is not None and config.masking != "static":
        raise UserError(
            f"--duplicates {config.duplicates} is for --masking static; dynamic masking never "
            "repeats"
        )
    if config.duplicates is not None and config.duplicates < 1:
        raise UserError(f"--duplicates is {config.duplicates}; it must be at least 1")
    if not 0 < config.mask_rate <= 1:
        raise UserError(f"--mask-rate is {config.mask_rate}; choose a share above 0, at most 1")
    if config.max_predictions is not None and config.max_predictions < 1:
        raise UserError(f"--max-predictions is {config.max_predictions}; it must be at least 1")
    if not 0 <= config.short_probability <= 1:
        raise UserError(
            f"--short-probability is {config.short_probability}; choose a share from 0 to 1"
        )
    fitting = PAIRS_OF[objective]
    if config.pairs == "auto":
        return fitting[0]
    if config.pairs not in fitting:
        teaches = [name for name, kinds in PAIRS_OF.items() if config.pairs in kinds]
        raise UserError(
            f"--pairs {config.pairs} has nothing for --objective {objective} to learn from; give "
            f"--pairs {' or '.join(fitting)}, or --objective {' or '.join(teaches)}"
        )
    return config.pairs


def evaluate(model: nn.Module, batches: list[Batch], objective: Objective) -> dict[str, float]:
    """Means of the losses and accuracies over held-out batches, and the perplexity."""
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    losses: list[str] = []
    for batch in batches:
        sums = objective(model, batch.to(next(model.parameters()).device))
        losses = [f"{name}_loss" for name in sums.losses]
        for name, count in objective.counts(batch).items():
            totals[f"{name}_loss"] = totals.get(f"{name}_loss", 0.0) + float(sums.losses[name])
            counts[f"{name}_loss"] = counts.get(f"{name}_loss", 0) + count
        for name, (value, count) in sums.metrics.items():
            totals[name] = totals.get(name, 0.0) + float(value)
            counts[name] = counts.get(name, 0) + count
    means = {name: total / counts[name] for name, total in totals.items()}
    means["loss"] = sum(means[name] for name in losses)
    tokens = "ltr" if "ltr_loss" in means else "mlm"
    nats = torch.tensor(means[f"{tokens}_loss"], dtype=torch.float64)
    means[f"{tokens}_perplexity"] = float(nats.exp())
    return means
