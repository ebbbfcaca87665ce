"""The timed work is real training and real answers, and its arithmetic is what torch counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.pretraining.objectives import MaskedLMAndNextSentence
from bertkit.speed import peer, steps
from bertkit.speed.steps import random_tokens

SIZES = model_config("2x32x2", 300)


def test_made_up_tokens_are_the_same_each_time_and_masked_as_the_paper_says() -> None:
    tokens = random_tokens(8, 100, vocabulary=300)
    assert np.array_equal(tokens.ids, random_tokens(8, 100, vocabulary=300).ids)
    assert (tokens.masked.sum(axis=1) == 15).all()
    assert not tokens.masked[:, [0, 99]].any(), "never [CLS] or the last [SEP]"
    varied = random_tokens(50, 100, varied=True, vocabulary=300)
    assert 16 <= varied.lengths.min() < varied.lengths.max() <= 100
    assert varied.count == varied.real.sum() == varied.lengths.sum() == steps.flat(varied).tokens
    assert (varied.masked.sum(axis=1) == np.round(0.15 * varied.lengths)).all()
    assert not (varied.masked & ~varied.real).any()


@pytest.mark.parametrize("make", [steps.pretraining_step, steps.finetuning_step])
def test_a_timed_step_trains(make: object) -> None:
    torch.manual_seed(0)
    step = make(SIZES, random_tokens(4, 24, vocabulary=300), "fp32")  # type: ignore[operator]
    losses = [step() for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.parametrize("kind", ["pretraining_step", "finetuning_step"])
@pytest.mark.parametrize("varied", [False, True])
def test_both_sides_start_from_the_same_kind_of_loss(kind: str, varied: bool) -> None:
    pytest.importorskip("transformers")
    tokens = random_tokens(8, 56, varied, vocabulary=300)
    assert (tokens.lengths.max() < 56) == varied, "then the padded form is narrower"
    torch.manual_seed(0)
    ours = getattr(steps, kind)(SIZES, tokens, "fp32")()
    theirs = getattr(peer, kind)(SIZES, tokens, "float32 sdpa")()
    assert ours == pytest.approx(theirs, rel=0.1)


def test_a_pretraining_step_needs_the_operations_of_its_products() -> None:
    """Counted by PyTorch in float32, where a CPU pads no rows."""
    sizes, tokens = model_config("3x32x2", 2000), random_tokens(3, 40, True, 2000)
    with FlopCounterMode(display=False) as counter:
        losses = MaskedLMAndNextSentence()(
            PretrainingModel(sizes), steps.pretraining_batch(tokens)
        ).losses
        sum(losses.values()).backward()  # type: ignore[union-attr]
    lengths = tokens.lengths.astype(int)
    padding = 3 * lengths.max() ** 2 - (lengths**2).sum()
    padded = 4 * sizes.layers * sizes.hidden_size * int(padding)
    in_place = 2 * int(tokens.masked.sum()) * sizes.hidden_size * sizes.vocab_size  # not counted
    counted = counter.get_total_flops() - 3 * padded + in_place
    assert steps.pretraining_flops(sizes, tokens) == counted


def test_answers_cover_every_text() -> None:
    tokens = random_tokens(5, 40, varied=True, vocabulary=300)
    rows = steps.answering(SIZES, tokens, "fp32")()
    assert len(rows) == 5  # type: ignore[arg-type]
    assert all(row.sum() == pytest.approx(1, abs=1e-5) for row in rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["pretraining", "finetuning"])
def test_the_arithmetic_of_a_step_is_about_what_torch_counts(name: str) -> None:
    tokens = random_tokens(4, 64, vocabulary=300)
    step = getattr(steps, f"{name}_step")(SIZES, tokens, "fp32")
    with FlopCounterMode(display=False) as counter:
        step()
    assert getattr(steps, f"{name}_flops")(SIZES, tokens) == pytest.approx(
        counter.get_total_flops(), rel=0.05
    )
