"""What pre-training learns: the paper's two tasks (3.1, A.1), and the variants of its ablations.

mlm+nsp   masked LM plus next sentence, added without weights (A.2)
mlm       masked LM alone
mlm+sop   masked LM plus sentence order: are the two segments swapped (ALBERT)?
ltr       left to right: every token from those before it, under a causal mask (5.1)
"""

from __future__ import annotations

import math

from torch import nn

from bertkit.errors import UserError
from bertkit.model.bert import LeftToRightModel, MaskedLMModel, PretrainingModel
from bertkit.model.config import ModelConfig
from bertkit.pretraining.config import ObjectiveName, Pairs, PretrainConfig
from bertkit.training.batch import Batch
from bertkit.training.objective import LossSums, Objective
from bertkit.training.processes import Processes, alone

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


def evaluate(
    model: nn.Module,
    batches: list[Batch],
    objective: Objective,
    processes: Processes | None = None,
) -> dict[str, float]:
    """Means of the losses and accuracies over held-out batches, and the perplexity.

    Many processes share the batches out, and all get the same means.
    """
    processes = processes or alone()
    sums: dict[str, list[float]] = {}
    for batch in batches[processes.rank :: processes.count]:
        found = objective(model, batch.to(processes.device))
        counts = objective.counts(batch)
        of_losses = {f"{name}_loss": (loss, counts[name]) for name, loss in found.losses.items()}
        for name, (value, count) in (of_losses | found.metrics).items():
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += float(value)
            total[1] += count
    # A process without a batch of its own knows no names.
    names = processes.first(lambda: list(sums))
    flat = processes.sums([number for name in names for number in sums.get(name, (0.0, 0.0))])
    pairs = zip(names, flat[::2], flat[1::2], strict=True)
    means = {name: total / count for name, total, count in pairs}
    means["loss"] = sum(value for name, value in means.items() if name.endswith("_loss"))
    tokens = "ltr" if "ltr_loss" in means else "mlm"
    # a diverged model's perplexity may be beyond any float
    means[f"{tokens}_perplexity"] = math.exp(min(means[f"{tokens}_loss"], 700.0))
    return means


FAR = 0.1
"""A first loss this far from that of guessing blindly, as a share of it, is worth a word..."""

FAR_OF_TWO = 0.3
"""...and for a choice between two, which a few pairs decide, this far in nats."""


def first_step_remarks(means: dict[str, float], vocab_size: int) -> list[str]:
    """What is odd about the first step of random weights, in words; nothing when all is well.

    Weights that know nothing give every token the same chance, so that the loss is the logarithm
    of the number of choices.
    """
    remarks = []
    blind, pairs = math.log(vocab_size), math.log(2)
    for name, title in (("mlm", "masked LM"), ("ltr", "next token")):
        loss = means.get(f"{name}_loss")
        if loss is not None and abs(loss - blind) > FAR * blind:
            remarks.append(
                f"the first step's {title} loss is {loss:.2f}, and random weights should give "
                f"about ln({vocab_size:,}) = {blind:.2f}; look at --initializer-range and the text"
            )
    for name, title in (("nsp", "next sentence"), ("sop", "sentence order")):
        loss = means.get(f"{name}_loss")
        if loss is not None and abs(loss - pairs) > FAR_OF_TWO:
            remarks.append(
                f"the first step's {title} loss is {loss:.2f}, and random weights should give "
                f"about ln(2) = {pairs:.2f}; look at --initializer-range"
            )
    return remarks
