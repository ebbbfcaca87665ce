"""The optimizers against plain restatements; no weight decay on LayerNorm and biases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bertkit.model.bert import PretrainingModel
from bertkit.model.config import model_config
from bertkit.training.config import TrainOptions
from bertkit.training.optimizer import (
    make_optimizer,
    moments,
    parameter_groups,
    rate_share,
    restore_moments,
)

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
    restore_moments(model, again, saved.items())
    for name, value in moments(model, again).items():
        assert value.equal(saved[name]), name


def adamw(p: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float) -> Tensor:
    """Loshchilov and Hutter, algorithm 2, with bias correction."""
    p = p * (1 - rate * decay)
    return p - rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-6)


def paper(p: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float) -> Tensor:
    """`AdamWeightDecayOptimizer.apply_gradients` of the reference release."""
    update = m / (v.sqrt() + 1e-6)
    return p - rate * (update + decay * p)


def lamb(p: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float) -> Tensor:
    """You et al. 2019, algorithm 2; no scaling where there is no decay."""
    r = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-6)
    if decay == 0:
        return p - rate * r
    r = r + decay * p
    return p - rate * p.norm() / r.norm() * r


@pytest.mark.parametrize(
    ("name", "plain"), [("adamw", adamw), ("adam-paper", paper), ("lamb", lamb)]
)
def test_an_optimizer_does_what_its_plain_form_says(
    name: str, plain: Callable[..., Tensor]
) -> None:
    torch.manual_seed(0)
    model = small_model()
    options = TrainOptions(steps=1, learning_rate=1e-3, optimizer=name)  # type: ignore[arg-type]
    optimizer = make_optimizer(model, options)
    weights = {n: p.detach().double() for n, p in model.named_parameters()}
    first = {n: torch.zeros_like(p) for n, p in weights.items()}
    second = {n: torch.zeros_like(p) for n, p in weights.items()}
    for step in range(1, 6):
        rate = 1e-3 * step
        for group in optimizer.param_groups:
            group["lr"] = rate
        for n, p in model.named_parameters():
            p.grad = torch.randn_like(p)
            first[n] = 0.9 * first[n] + 0.1 * p.grad.double()
            second[n] = 0.999 * second[n] + 0.001 * p.grad.double() ** 2
            decay = 0.01 if p.ndim >= 2 else 0.0
            weights[n] = plain(weights[n], first[n], second[n], step, rate, decay)
        optimizer.step()
    for n, p in model.named_parameters():
        torch.testing.assert_close(p.detach().double(), weights[n], rtol=1e-4, atol=1e-6)


def test_the_papers_first_update_is_as_large_as_the_missing_correction_makes_it() -> None:
    """0.1 g / (sqrt(0.001) |g|): over three times the rate, where Adam would move by the rate."""
    parameter = torch.nn.Linear(1, 1)
    with torch.no_grad():
        parameter.weight.zero_()
    parameter.weight.grad = torch.full((1, 1), 5.0)
    make_optimizer(parameter, TrainOptions(1, 0.01, optimizer="adam-paper")).step()
    assert float(parameter.weight.detach()) == pytest.approx(-0.01 * 0.1 / 0.001**0.5, rel=1e-4)


def test_lamb_moves_a_matrix_by_the_rates_share_of_its_length() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(30, 20)
    before = model.weight.detach().clone()
    model.weight.grad = torch.randn_like(model.weight)
    make_optimizer(model, TrainOptions(1, 0.01, optimizer="lamb")).step()
    moved = float((model.weight.detach() - before).norm() / before.norm())
    assert moved == pytest.approx(0.01, rel=1e-4)


def test_each_layer_learns_at_a_share_of_the_layer_aboves_rate() -> None:
    names = {
        "classifier.dense.weight": 1.0,
        "encoder.pooler.bias": 1.0,
        "encoder.blocks.11.qkv.weight": 1.0,
        "encoder.blocks.10.qkv.weight": 0.5,
        "encoder.blocks.1.contract.bias": 0.5**10,
        "encoder.blocks.0.attention_norm.weight": 0.5**11,
        "encoder.embeddings.token": 0.5**12,
        "encoder.embeddings.norm.weight": 0.5**12,
    }
    assert {name: rate_share(name, 12, 0.5) for name in names} == names


def test_without_layer_decay_there_are_the_references_two_groups() -> None:
    model = small_model()
    shares = [(g["weight_decay"], g["rate_share"]) for g in parameter_groups(model, 0.01)]
    assert shares == [(0.01, 1.0), (0.0, 1.0)]


def test_the_loop_moves_lower_layers_by_their_share_of_the_rate() -> None:
    torch.manual_seed(0)
    model = PretrainingModel(model_config("2x16x2", 50))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    options = TrainOptions(steps=1, learning_rate=1e-3, weight_decay=0.0, layer_decay=0.1)
    optimizer = make_optimizer(model, options)
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * group["rate_share"]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 5.0)
    optimizer.step()
    for name, parameter in model.named_parameters():
        moved = (before[name] - parameter.detach()).mean()  # Adam's first step is the rate
        assert float(moved) == pytest.approx(1e-3 * rate_share(name, 2, 0.1), rel=0.02), name


def test_what_is_frozen_is_in_no_group() -> None:
    model = small_model()
    model.encoder.embeddings.requires_grad_(False)
    parameters = {id(p) for group in parameter_groups(model, 0.01) for p in group["params"]}
    frozen = {id(p) for p in model.encoder.embeddings.parameters()}
    assert not parameters & frozen
    assert len(parameters) == len(list(model.parameters())) - len(frozen)
