"""Frozen layers stay, fresh ones start anew, and the rest is the checkpoint's."""

from __future__ import annotations

import copy

import pytest
import torch

from bertkit.errors import UserError
from bertkit.model.bert import ClassificationModel
from bertkit.model.config import model_config
from bertkit.tasks.transfer import check_layers, freeze, reinitialise


def model() -> ClassificationModel:
    torch.manual_seed(3)
    made = ClassificationModel(model_config("4x16x2", 50), ["a", "b"])
    for parameter in made.parameters():
        parameter.data += 1.0  # as nothing fresh looks
    return made


def changed(before: ClassificationModel, after: ClassificationModel) -> set[str]:
    """Modules of the encoder, and the head, in which any weight differs."""
    pairs = zip(before.named_parameters(), after.parameters(), strict=True)
    names = [name for (name, one), other in pairs if not one.equal(other)]
    return {name.rsplit(".", 2 if "blocks" in name else 1)[0] for name in names}


@pytest.mark.parametrize("layers", [0, 1, 3, 4])
def test_fresh_top_layers_and_pooler_are_drawn_anew_and_nothing_else(layers: int) -> None:
    before, after = model(), model()
    reinitialise(after, layers, seed=0)
    expected = {f"encoder.blocks.{k}" for k in range(4 - layers, 4)} | {"encoder.pooler"}
    assert changed(before, after) == (expected if layers else set())
    again = model()
    reinitialise(again, layers, seed=0)
    assert not changed(again, after)
    if layers:
        fresh = after.encoder.blocks[3]
        assert float(fresh.qkv.weight.detach().std()) == pytest.approx(0.0176, abs=0.002)
        assert fresh.qkv.bias.eq(0).all()
        assert fresh.attention_norm.weight.eq(1).all()
        other = model()
        reinitialise(other, layers, seed=1)
        assert changed(other, after)


def test_gradients_end_above_what_is_frozen() -> None:
    made = model()
    freeze(made, 2, embeddings=False)
    still = {name for name, p in made.named_parameters() if not p.requires_grad}
    assert still == {
        name
        for name, _ in made.named_parameters()
        if name.startswith(("encoder.embeddings", "encoder.blocks.0.", "encoder.blocks.1."))
    }
    alone = model()
    freeze(alone, 0, embeddings=True)
    assert {n for n, p in alone.named_parameters() if not p.requires_grad} == {
        n for n, _ in alone.named_parameters() if n.startswith("encoder.embeddings")
    }
    untouched = copy.deepcopy(alone)
    freeze(untouched, 0, embeddings=False)
    assert [p.requires_grad for p in untouched.parameters()] == [
        p.requires_grad for p in alone.parameters()
    ]


@pytest.mark.parametrize(
    ("fresh", "frozen", "message"),
    [
        (5, 0, "--reinitialise-layers is 5; the checkpoint has 4 layers"),
        (0, -1, "--freeze-layers is -1; the checkpoint has 4 layers"),
        (2, 3, "--reinitialise-layers 2 and --freeze-layers 3 overlap"),
    ],
)
def test_more_layers_than_there_are_is_one_line_for_the_user(
    fresh: int, frozen: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_layers(model(), fresh, frozen)
    check_layers(model(), 2, 2)
