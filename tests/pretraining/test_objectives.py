"""The two objectives and their evaluation."""

from __future__ import annotations

import math

import pytest
import torch

from bertkit.errors import UserError
from bertkit.model.bert import LeftToRightModel, MaskedLMModel, PretrainingModel
from bertkit.model.config import model_config
from bertkit.pretraining.batches import PretrainingSource, SpecialIds
from bertkit.pretraining.config import ObjectiveName, PretrainConfig
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.objectives import (
    PAIRS_OF,
    MaskedLMAndNextSentence,
    evaluate,
    make_model,
    make_objective,
    pairs_of,
)
from bertkit.pretraining.plan import PlanOptions
from tests.pretraining.memory_split import MemorySplit


def source(split: MemorySplit) -> PretrainingSource:
    masks = MaskOptions(mask_id=4, vocab_size=100, max_predictions=10)
    return PretrainingSource(split, PlanOptions(64), masks, SpecialIds(2, 3), 8, 4)


def model() -> PretrainingModel:
    torch.manual_seed(0)
    return PretrainingModel(model_config("1x32x2", 100))


def test_untrained_losses_are_near_ln_v_and_ln_2(split: MemorySplit) -> None:
    with torch.inference_mode():
        means = evaluate(model().eval(), source(split).step(0), MaskedLMAndNextSentence())
    assert abs(means["mlm_loss"] - math.log(100)) < 0.1
    assert abs(means["nsp_loss"] - math.log(2)) < 0.1
    assert means["loss"] == means["mlm_loss"] + means["nsp_loss"]
    assert abs(means["mlm_perplexity"] - math.exp(means["mlm_loss"])) < 1e-6


def test_counts_are_those_of_the_terms(split: MemorySplit) -> None:
    batch = source(split).step(0)[0]
    counts = MaskedLMAndNextSentence().counts(batch)
    assert counts["nsp"] == 4
    budget = [max(1, round(int(n) * 0.15)) for n in batch.inputs.lengths]
    assert counts["mlm"] == sum(min(10, n) for n in budget)


def test_each_loss_reaches_its_own_head(split: MemorySplit) -> None:
    batch = source(split).step(0)[0]
    for name, head in (("mlm", "masked_lm.dense"), ("nsp", "next_sentence")):
        fresh = model()
        MaskedLMAndNextSentence()(fresh, batch).losses[name].backward()
        touched = {
            key for key, p in fresh.named_parameters() if p.grad is not None and p.grad.abs().sum()
        }
        assert any(key.startswith(head) for key in touched)
        other = "next_sentence" if name == "mlm" else "masked_lm.dense"
        assert not any(key.startswith(other) for key in touched)


def test_both_next_sentence_labels_give_a_gradient() -> None:
    fresh = model()
    pooled = torch.randn(6, 32)
    for label in (0, 1):
        fresh.zero_grad()
        fresh.next_sentence.loss(pooled, torch.full((6,), label)).loss.backward()
        weight = next(fresh.next_sentence.parameters())
        assert weight.grad is not None
        assert weight.grad.abs().sum() > 0


def source_for(name: ObjectiveName, split: MemorySplit) -> PretrainingSource:
    masks = MaskOptions(mask_id=4, vocab_size=100, max_predictions=10)
    options = PlanOptions(64, pairs=PAIRS_OF[name][0])
    return PretrainingSource(
        split, options, None if name == "ltr" else masks, SpecialIds(2, 3), 8, 4
    )


@pytest.mark.parametrize(
    ("name", "kind", "losses"),
    [
        ("mlm+nsp", PretrainingModel, {"mlm", "nsp"}),
        ("mlm+sop", PretrainingModel, {"mlm", "sop"}),
        ("mlm", MaskedLMModel, {"mlm"}),
        ("ltr", LeftToRightModel, {"ltr"}),
    ],
)
def test_an_objective_has_its_own_model_losses_and_measures(
    name: ObjectiveName, kind: type, losses: set[str], split: MemorySplit
) -> None:
    torch.manual_seed(0)
    objective, fresh = make_objective(name), make_model(name, model_config("1x32x2", 100))
    assert type(fresh) is kind
    batches = source_for(name, split).step(0)
    sums = objective(fresh, batches[0])
    assert set(sums.losses) == set(objective.counts(batches[0])) == losses
    sum(sums.losses.values()).backward()  # type: ignore[union-attr]
    assert all(p.grad is not None for p in fresh.parameters()), "no parameter is left untrained"
    with torch.inference_mode():
        means = evaluate(fresh.eval(), batches, objective)
    tokens = "ltr" if name == "ltr" else "mlm"
    assert abs(means[f"{tokens}_loss"] - math.log(100)) < 0.15
    assert means[f"{tokens}_perplexity"] == pytest.approx(math.exp(means[f"{tokens}_loss"]))
    assert means["loss"] == pytest.approx(sum(means[f"{loss}_loss"] for loss in losses))
    assert {f"{loss}_accuracy" for loss in losses} <= means.keys()


def test_the_objective_decides_what_an_example_is() -> None:
    def pairs(**options: object) -> str:
        return pairs_of(PretrainConfig(corpus="", output="", **options))  # type: ignore[arg-type]

    assert pairs() == "nsp"
    assert pairs(objective="mlm+sop") == "sop"
    assert pairs(objective="mlm") == pairs(objective="ltr") == "full-sentences"
    assert pairs(objective="mlm", pairs="nsp") == "nsp"  # "no NSP" of the paper's table 5
    assert pairs(pairs="nsp-sentence") == "nsp-sentence"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": "sop"}, "--pairs nsp or nsp-sentence, or --objective mlm.sop"),
        ({"pairs": "full-sentences"}, "or --objective mlm or ltr"),
        ({"objective": "mlm+sop", "pairs": "nsp"}, "give --pairs sop"),
        ({"objective": "ltr", "mask_units": "span"}, "--mask-units is for masked LM"),
        ({"objective": "ltr", "mask_rate": 0.2}, "--mask-rate is for masked LM"),
        ({"duplicates": 5}, "--duplicates 5 is for --masking static"),
        ({"masking": "static", "duplicates": 0}, "at least 1"),
        ({"mask_rate": 0.0}, "above 0"),
        ({"mask_rate": 1.5}, "at most 1"),
        ({"max_predictions": 0}, "at least 1"),
        ({"short_probability": 1.5}, "from 0 to 1"),
    ],
)
def test_contradictions_are_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as found:
        pairs_of(PretrainConfig(corpus="", output="", **options))  # type: ignore[arg-type]
    assert "\n" not in str(found.value)
