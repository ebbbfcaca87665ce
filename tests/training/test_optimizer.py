"""AdamW's groups: no weight decay on LayerNorm and biases."""

from __future__ import annotations

import torch

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.training.config import TrainOptions
from bertkit.training.optimizer import make_optimizer, moments, restore_moments

OPTIONS = TrainOptions(steps=1, learning_rate=1e-3)


def small_model() -> PretrainingModel:
    return PretrainingModel(model_config("1x16x2", 50))


def test_decay_spares_exactly_what_the_reference_names() -> None:
    model = small_model()
    optimizer = make_optimizer(model, OPTIONS)
    spared = {id(p) for p in optimizer.param_groups[1]["params"]}
    assert optimizer.param_groups[0]["weight_decay"] == 0.01
    assert optimizer.param_groups[1]["weight_decay"] == 0.0
    for name, parameter in model.named_parameters():
        named = "norm" in name or name.endswith("bias")
        assert (id(parameter) in spared) == named, name


def test_every_parameter_is_in_one_group_once() -> None:
    model = small_model()
    optimizer = make_optimizer(model, OPTIONS)
    ids = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in model.parameters())


def test_moments_survive_a_round_trip() -> None:
    model = small_model()
    optimizer = make_optimizer(model, OPTIONS)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    saved = {name: value.clone() for name, value in moments(model, optimizer).items()}
    assert len(saved) == 3 * len(list(model.parameters()))
    again = make_optimizer(model, OPTIONS)
    restore_moments(model, again, saved)
    for name, value in moments(model, again).items():
        assert value.equal(saved[name]), name
