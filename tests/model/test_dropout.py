"""Dropout: the rate at every place that the paper drops at, and an unbiased scale."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bertkit.model.batch import FlatBatch
from bertkit.model.bert import ClassificationModel, PretrainingModel, TaggingModel
from bertkit.model.config import ModelConfig
from bertkit.model.dropout import (
    BYTES,
    RESOLUTION,
    Dropout,
    add_dropped,
    dropout,
    keep_mask,
    keep_scale,
)


def assert_rate(dropped: Tensor, rate: float, resolution: int = RESOLUTION) -> None:
    """A share of True within five standard deviations of the rate."""
    expected = round(rate * resolution) / resolution
    deviation = (expected * (1 - expected) / dropped.numel()) ** 0.5
    assert abs(float(dropped.float().mean()) - expected) < 5 * deviation


def assert_dropped(values: Tensor, whole: float, rate: float) -> None:
    """`values` is dropout of a tensor that is `whole` everywhere: zeros, else scaled values."""
    assert_rate(values == 0, rate)
    kept = values[values != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, whole * keep_scale(rate)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("resolution", "lanes"), [(RESOLUTION, 4), (BYTES, 8)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.015, 0.9])
def test_a_mask_drops_at_its_rate_in_every_part_of_a_word(
    rate: float, resolution: int, lanes: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    dropped = keep_mask(torch.empty(400_000, dtype=dtype), rate, resolution) == 0
    assert_rate(dropped, rate, resolution)
    for lane in range(lanes):
        assert_rate(dropped[lane::lanes], rate, resolution)


def test_the_scale_is_that_of_the_rate_really_drawn() -> None:
    assert keep_scale(0.1) == 65536 / (65536 - 6554)
    assert keep_scale(0.5) == 2.0
    assert keep_scale(0.0) == 1.0
    assert keep_scale(0.1, BYTES) == 256 / (256 - 26)
    assert keep_scale(0.999, BYTES) == 256.0


def test_dropout_keeps_the_mean() -> None:
    torch.manual_seed(0)
    values = torch.rand(1_000_000) + 1.0
    assert float(dropout(values, 0.1).mean()) == pytest.approx(float(values.mean()), abs=0.003)


def test_the_gradient_passes_where_the_value_did() -> None:
    values = torch.ones(1000, requires_grad=True)
    result = dropout(values, 0.3)
    result.sum().backward()
    assert torch.equal(values.grad, result.detach())  # type: ignore[arg-type]


def test_residual_and_dropout_in_one_is_residual_plus_dropout() -> None:
    residual = torch.randn(50, 7, requires_grad=True)
    values = torch.randn(50, 7, requires_grad=True)
    results = []
    for function in (add_dropped, lambda r, v, rate: r + dropout(v, rate)):
        torch.manual_seed(3)
        result = function(residual, values, 0.2)
        results.append((result, *torch.autograd.grad(result.square().sum(), (residual, values))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_the_seed_decides_the_mask_and_each_draw_is_another() -> None:
    torch.manual_seed(5)
    first, second = keep_mask(torch.empty(3, 333), 0.5), keep_mask(torch.empty(3, 333), 0.5)
    torch.manual_seed(5)
    assert torch.equal(first, keep_mask(torch.empty(3, 333), 0.5))
    assert not torch.equal(first, second)


def test_dropout_is_the_identity_in_evaluation_and_at_rate_zero() -> None:
    values = torch.randn(100)
    layer = Dropout(0.5)
    assert not torch.equal(layer(values), values)
    layer.eval()
    assert layer(values) is values
    assert Dropout(0.0)(values) is values


def test_a_mask_of_rate_zero_keeps_everything() -> None:
    assert keep_mask(torch.empty(1000), 0.0).all()


HIDDEN_RATE, ATTENTION_RATE = 0.1, 0.25
CONFIG = ModelConfig(
    vocab_size=50,
    hidden_size=64,
    layers=2,
    heads=32,
    intermediate_size=32,
    hidden_dropout=HIDDEN_RATE,
    attention_dropout=ATTENTION_RATE,
)
ONE_TOKEN_EACH = FlatBatch.from_sequences([[7]] * 3000)
"""With one token in a sequence its attention probability is exactly 1."""


def constant(layer: nn.Module, value: float) -> None:
    """Makes a Linear or a LayerNorm give `value` whatever its input."""
    nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
    nn.init.constant_(layer.bias, value)  # type: ignore[arg-type]


def input_of(layer: nn.Module, run: Callable[[], object]) -> Tensor:
    """What `layer` is given while `run` runs."""
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    run()
    hook.remove()
    return seen[0]


def test_embeddings_are_dropped_after_their_layer_norm() -> None:
    encoder = PretrainingModel(CONFIG).encoder
    constant(encoder.embeddings.norm, 1.0)
    assert_dropped(encoder.embeddings(ONE_TOKEN_EACH), 1.0, HIDDEN_RATE)


@pytest.mark.parametrize("layer", [0, 1])
def test_attention_probabilities_are_dropped(layer: int) -> None:
    model = PretrainingModel(CONFIG)
    block = model.encoder.blocks[layer]
    constant(block.qkv, 1.0)
    context = input_of(block.attention_output, lambda: model(ONE_TOKEN_EACH))
    heads = context.view(-1, CONFIG.heads, CONFIG.head_size)
    assert torch.equal(heads, heads[..., :1].expand_as(heads)), "a probability serves a whole head"
    assert_dropped(heads[..., 0], 1.0, ATTENTION_RATE)


@pytest.mark.parametrize("layer", [0, 1])
def test_attention_and_feed_forward_outputs_are_dropped_before_the_residual(layer: int) -> None:
    model = PretrainingModel(CONFIG)
    encoder, block = model.encoder, model.encoder.blocks[layer]
    before = encoder.embeddings.norm if layer == 0 else encoder.blocks[0].feed_forward_norm
    constant(before, 0.0)  # the residual adds nothing
    constant(block.attention_output, 1.0)
    attended = input_of(block.attention_norm, lambda: model(ONE_TOKEN_EACH))
    assert_dropped(attended, 1.0, HIDDEN_RATE)
    constant(block.attention_norm, 0.0)
    constant(block.contract, 1.0)
    fed = input_of(block.feed_forward_norm, lambda: model(ONE_TOKEN_EACH))
    assert_dropped(fed, 1.0, HIDDEN_RATE)


def test_a_classifier_drops_the_pooled_output() -> None:
    model = ClassificationModel(CONFIG, ["a", "b"])
    constant(model.encoder.pooler, 1.0)
    pooled = input_of(model.classifier.dense, lambda: model(ONE_TOKEN_EACH))
    assert_dropped(pooled, float(torch.tanh(torch.ones(()))), HIDDEN_RATE)


def test_a_tagger_drops_the_last_hidden_state() -> None:
    model = TaggingModel(CONFIG, ["a", "b"])
    constant(model.encoder.blocks[1].feed_forward_norm, 1.0)
    words = torch.arange(ONE_TOKEN_EACH.tokens)
    hidden = input_of(model.classifier.dense, lambda: model(ONE_TOKEN_EACH, words))
    assert_dropped(hidden, 1.0, HIDDEN_RATE)


def test_pretraining_drops_nowhere_else() -> None:
    """Not in the masked LM's head, not before next sentence (reference release)."""
    model = PretrainingModel(CONFIG)
    places = [name for name, part in model.named_modules() if isinstance(part, Dropout)]
    assert len(places) == 1 + 3 * CONFIG.layers
    assert all(name.startswith("encoder.") for name in places)


def test_nothing_is_dropped_in_evaluation() -> None:
    model = PretrainingModel(CONFIG).eval()
    batch = FlatBatch.from_sequences([[1, 2, 3], [4, 5]])
    assert torch.equal(model(batch), model(batch))
