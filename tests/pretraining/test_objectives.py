"""The two objectives and their evaluation."""

from __future__ import annotations

import math

import torch

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.pretraining.batches import PretrainingSource, SpecialIds
from bertkit.pretraining.masking import MaskOptions
from bertkit.pretraining.objectives import MaskedLMAndNextSentence, evaluate
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
