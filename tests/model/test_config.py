"""Sizes by name, and sizes that make no model."""

from __future__ import annotations

import pytest

from bertkit.errors import UserError
from bertkit.model.config import SIZES, ModelConfig, model_config


def test_the_papers_two_sizes_are_there_by_name() -> None:
    base, large = model_config("base", 30522), model_config("large", 30522)
    assert (base.layers, base.hidden_size, base.heads) == (12, 768, 12)
    assert (large.layers, large.hidden_size, large.heads) == (24, 1024, 16)
    assert base.intermediate_size == 3072
    assert base.layer_norm_eps == 1e-12 and base.max_positions == 512
    assert base.hidden_dropout == base.attention_dropout == 0.1


@pytest.mark.parametrize("name", SIZES)
def test_every_named_size_has_heads_of_64(name: str) -> None:
    assert model_config(name, 100).head_size == 64


def test_a_size_can_be_spelled_out_and_fields_changed() -> None:
    config = model_config("2x256x8", 100, max_positions=64, activation="gelu_tanh")
    assert (config.layers, config.hidden_size, config.heads) == (2, 256, 8)
    assert (config.intermediate_size, config.max_positions) == (1024, 64)
    assert config.activation == "gelu_tanh"


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("huge", {}, "no model size 'huge'"),
        ("2x256", {}, "no model size '2x256'"),
        ("2x100x3", {}, "not a multiple of 3 heads"),
        ("0x64x4", {}, "layers is 0"),
        ("2x64x0", {}, "heads is 0"),
        ("tiny", {"hidden_dropout": 1.0}, "hidden dropout is 1.0"),
        ("tiny", {"attention_dropout": -0.1}, "attention dropout is -0.1"),
        ("tiny", {"activation": "swish"}, "no activation 'swish'"),
        ("tiny", {"position_init": "none"}, "no position init 'none'"),
        ("tiny", {"max_positions": 0}, "max positions is 0"),
    ],
)
def test_a_size_that_makes_no_model_is_refused_in_one_line(
    name: str, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(UserError, match=says) as refused:
        model_config(name, 100, **changes)
    assert "\n" not in str(refused.value)


def test_an_empty_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match="vocab size is 0"):
        ModelConfig(vocab_size=0, hidden_size=8, layers=1, heads=1, intermediate_size=8)
